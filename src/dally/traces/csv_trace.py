"""The plain trace: csv or csv.gz with job_id, submit_s, gpus, duration_s and more if known."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dally.errors import InputError, at
from dally.model import Job
from dally.traces.table import number, rows_of

NEEDED = {
    "job_id": ("job_id",),
    "submit_s": ("submit_s", "submit_time"),
    "gpus": ("gpus", "num_gpu"),
}
# How long a job is: the first of these that the file has.
LENGTHS = {
    "duration_s": ("duration_s", "duration"),  # at its closest placement, alone
    "compute_s": ("compute_s", "ideal_jct_s"),  # compute alone
    "iterations": ("iterations",),  # of its model's profile
}
OPTIONAL = ("model", "user", "priority", "name")


class Trace(NamedTuple):
    """Jobs in order of submission; `duration_s` of each holds what `length` says, to be converted if need be."""

    jobs: list[Job]
    skipped: int  # left out because they ask for more than the cluster has
    length: str = "duration_s"  # or compute_s, or iterations


def read_csv(path: Path, most_gpus: int, skip_impossible: bool = False) -> Trace:
    """The jobs of a trace for a cluster of `most_gpus` GPUs.

    Rows go straight into jobs, so that a long trace is held in memory once.
    """
    jobs: list[Job] = []
    lines: dict[str, int] = {}
    words: dict[str, str] = {}  # models, users and names, each kept once
    skipped = 0
    rows = rows_of(path)
    _, header = next(rows, (0, []))
    if not header:
        raise InputError(f"{path}: is empty; expected a csv with columns {', '.join(NEEDED)}, duration_s")
    columns = _columns(path, header)
    length, duration_at = _length(path, header)
    id_at, submit_at, gpus_at = (columns[name] for name in NEEDED)
    model_at, user_at, priority_at, name_at = (columns.get(name, -1) for name in OPTIONAL)
    for line, row in rows:
        if len(row) < len(header):
            raise at(path, line, None, f"{len(row)} fields where the header has {len(header)}")
        job_id = row[id_at].strip()
        if not job_id:
            raise at(path, line, "job_id", "empty: every job needs a name")
        if job_id in lines:
            raise at(path, line, "job_id", f"{job_id!r} stands already in line {lines[job_id]}")
        lines[job_id] = line
        gpus = number(path, line, header[gpus_at], row[gpus_at])
        if gpus < 1 or gpus != int(gpus):
            raise at(path, line, header[gpus_at], f"{row[gpus_at]!r}: must be a whole number, at least 1")
        submit_s = number(path, line, header[submit_at], row[submit_at])
        duration_s = number(path, line, header[duration_at], row[duration_at])
        if gpus > most_gpus:
            if not skip_impossible:
                problem = f"job {job_id!r} asks for {int(gpus)} GPUs and the cluster has {most_gpus}"
                raise at(path, line, header[gpus_at], f"{problem}; --skip-impossible leaves such jobs out")
            skipped += 1
            continue
        model = row[model_at].strip() if model_at >= 0 else ""
        user = row[user_at].strip() if user_at >= 0 else ""
        name = row[name_at].strip() if name_at >= 0 else ""
        priority = 0.0
        if priority_at >= 0 and row[priority_at].strip():
            priority = number(path, line, "priority", row[priority_at])
        jobs.append(
            Job(
                index=len(jobs),
                job_id=job_id,
                submit_s=submit_s,
                gpus=int(gpus),
                duration_s=duration_s,
                model=words.setdefault(model, model),
                user=words.setdefault(user, user),
                priority=priority,
                name=words.setdefault(name, name),
            )
        )
    if not jobs:
        why = f"; {skipped} jobs were larger than the cluster" if skipped else ""
        raise InputError(f"{path}: holds no jobs{why}")
    return Trace(_by_submission(jobs), skipped, length)


def _columns(path: Path, header: list[str]) -> dict[str, int]:
    """Where each field stands; the header's own names are kept for messages."""
    header[:] = [name.strip() for name in header]
    found = {name: header.index(name) for name in OPTIONAL if name in header}
    for name, spellings in NEEDED.items():
        present = [header.index(spelling) for spelling in spellings if spelling in header]
        if not present:
            raise at(path, 1, " or ".join(spellings), f"no such column; the header has {', '.join(header)}")
        found[name] = present[0]
    return found


def _length(path: Path, header: list[str]) -> tuple[str, int]:
    """What says how long jobs are, and where it stands."""
    for name, spellings in LENGTHS.items():
        for spelling in spellings:
            if spelling in header:
                return name, header.index(spelling)
    known = "duration_s, duration, compute_s or iterations"
    raise at(path, 1, known, f"no such column; the header has {', '.join(header)}")


def _by_submission(jobs: list[Job]) -> list[Job]:
    """The jobs in order of submission, those of one instant in the file's order, numbered by it."""
    if any(later.submit_s < job.submit_s for job, later in pairwise(jobs)):
        jobs.sort(key=lambda job: job.submit_s)
        for index, job in enumerate(jobs):
            job.index = index
    return jobs
