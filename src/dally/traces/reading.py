"""Reading a trace of any format, once a process: as jobs for a simulation, or as all that it says."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import InputError, at
from dally.model import NEVER, Job
from dally.traces.formats import Format, find_format, format_named
from dally.traces.rows import NOT_KNOWN, Reading, TraceRow, no_jobs
from dally.traces.times import Clock

MOST_ROWS: Final = 200_000  # rows of all traces together: some 100 MB


class Parsed(NamedTuple):
    """A trace's rows. What the reading counted is complete once all rows have been taken."""

    reading: Reading
    format: str
    rows: Iterable[TraceRow]


_CACHE: dict[tuple[object, ...], tuple[Parsed, int]] = {}  # and how many rows; the latest used stands last


def stamp(path: Path) -> tuple[str, int, int]:
    """What tells a file from what it was before: its full name, when it was written, and its size in bytes."""
    try:
        result = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return str(path.absolute()), result.st_mtime_ns, result.st_size


def find_cached(key: tuple[object, ...]) -> Parsed | None:
    """The trace that was kept under this key, or None."""
    if key not in _CACHE:
        return None
    _CACHE[key] = _CACHE.pop(key)
    return _CACHE[key][0]


def keep(key: tuple[object, ...], parsed: Parsed) -> Iterator[TraceRow]:
    """The rows as they are read; once all are, they are kept, unless that would be too many."""
    rows: list[TraceRow] = []
    left = iter(parsed.rows)
    for row in islice(left, MOST_ROWS):
        rows.append(row)
        yield row
    for row in left:
        rows = []
        yield row
        yield from left
        return
    _CACHE[key] = (parsed._replace(rows=rows), len(rows))
    while sum(size for _, size in _CACHE.values()) > MOST_ROWS:
        del _CACHE[next(iter(_CACHE))]


SHOWN_TYPES: Final = 4
ANY_GPU: Final = "HERE THEY MAY RUN ON ANY"  # of a note: the cluster has GPUs of one type


class Trace(NamedTuple):
    """Jobs in order of submission. Where the trace states no durations, `duration_s` is NEVER until it is known."""

    jobs: list[Job]
    stated: list[float]  # how long each job is, in what `length` says; empty where that is duration_s
    skipped: int  # left out because they ask for more than the cluster has
    length: str  # duration_s, compute_s or iterations
    format: str
    unused: dict[str, int]  # rows that could not be used, by reason
    notes: dict[str, int]  # jobs of which something was assumed, by what
    epoch_s: float | None = None  # when second 0 was, in seconds since 1970; None: not known


class History(NamedTuple):
    """All that a trace says, in order of submission."""

    rows: list[TraceRow]
    length: str
    format: str
    unused: dict[str, int]
    notes: dict[str, int]
    epoch_s: float | None  # when second 0 was; None: not known
    unended: list[TraceRow] = []  # noqa: RUF012  # jobs that run or wait at its end: `stated` is the time so far


def read_trace(
    path: Path,
    most_gpus: int,
    skip_impossible: bool = False,
    format: str = "auto",  # noqa: A002
    strict: bool = False,
    zone: str = "UTC",
) -> Trace:
    """The jobs of a trace for a cluster of `most_gpus` GPUs.

    Rows go straight into jobs where times are not dates, so that a long trace is held in memory once.
    """
    jobs: list[Job] = []
    lengths: list[float] = []
    skipped = 0
    types: dict[str, int] = {}  # jobs by type of GPU
    with collector_off():
        reading, name, rows = _parsed(path, format, strict, zone)
        for line, job_id, submit_s, spec, stated, _, _, _, _, _, _ in rows:
            gpus = spec.gpus
            if gpus > most_gpus:
                if not skip_impossible:
                    problem = f"job {job_id!r} asks for {gpus} GPUs and the cluster has {most_gpus}"
                    raise at(path, line, "gpus", f"{problem}; --skip-impossible leaves such jobs out")
                skipped += 1
                continue
            duration_s = stated
            if reading.length != "duration_s":
                lengths.append(stated)
                duration_s = NEVER
            jobs.append(Job(len(jobs), job_id, submit_s, gpus, duration_s, spec.model, spec))
            if spec.gpu_type:
                types[spec.gpu_type] = types.get(spec.gpu_type, 0) + 1
    if not jobs:
        raise no_jobs(reading, skipped)
    jobs, lengths = _by_submission(jobs, lengths)
    notes = dict(reading.notes) | _any_gpu(types)
    return Trace(jobs, lengths, skipped, reading.length, name, dict(reading.unused), notes, reading.epoch_s)


def _any_gpu(types: dict[str, int]) -> dict[str, int]:
    """What is to be known where jobs ran on GPUs of several types: here every GPU is like every other."""
    if len(types) < 2:
        return {}
    often = sorted(types, key=lambda kind: (-types[kind], kind))
    listed = ", ".join(f"{types[kind]:,} on {kind}" for kind in often[:SHOWN_TYPES])
    more = f" and {len(often) - SHOWN_TYPES} more types" if len(often) > SHOWN_TYPES else ""
    return {f"ran on GPUs of one type ({listed}{more}): {ANY_GPU}": sum(types.values())}


def _parsed(path: Path, format: str, strict: bool, zone: str) -> Parsed:  # noqa: A002
    """The trace's rows: as this process read them before, or to be read as they are taken."""
    name = find_format(path, format)
    key = (strict, zone, name, *map(stamp, (path, *format_named(name).companions(path))))
    known = find_cached(key)
    if known is not None:
        return known
    reading = Reading(path, strict, Clock(zone))
    return Parsed(reading, name, keep(key, Parsed(reading, name, _rows(reading, name))))


def read_csv(path: Path, most_gpus: int, skip_impossible: bool = False) -> Trace:
    """The jobs of a plain csv."""
    return read_trace(path, most_gpus, skip_impossible, format="csv")


def read_history(
    path: Path,
    format: str = "auto",  # noqa: A002
    strict: bool = False,
    zone: str = "UTC",
) -> History:
    """All rows of a trace that can be used."""
    reading = Reading(path, strict, Clock(zone))
    name = find_format(path, format)
    with collector_off():
        rows = list(_rows(reading, name))
    if not rows:
        raise no_jobs(reading, 0)
    rows.sort(key=lambda row: row.submit_s)
    used, first_s = {row.job_id for row in rows}, reading.epoch_s or 0.0
    unended = [
        row._replace(submit_s=max(0.0, row.submit_s - first_s))
        for row in reading.unended
        if row.job_id not in used  # a job that was requeued has rows of its earlier runs
    ]
    return History(rows, reading.length, name, reading.unused, reading.notes, reading.epoch_s, unended)


@contextmanager
def collector_off() -> Iterator[None]:
    """Reading and runs leave no garbage: to look for it among ever more objects takes ever longer."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def start_s(row: TraceRow) -> float:
    """When the job started, as far as known; else when it was submitted."""
    return row.submit_s + (row.wait_s if row.wait_s != NOT_KNOWN else 0.0)


def _rows(reading: Reading, name: str) -> Iterable[TraceRow]:
    """The rows of the file, no two of one id, times from the first job if they are dates."""
    known = format_named(name)
    rows = _unlike(reading, known)
    return _from_first(reading, list(rows)) if known.dated else rows


def _unlike(reading: Reading, known: Format) -> Iterator[TraceRow]:
    """The rows, while no two have the same id."""
    seen: set[str] = set()
    add = seen.add
    for count, row in enumerate(known.rows(reading), 1):
        add(row.job_id)
        if len(seen) < count:
            again = known.rows(Reading(reading.path, clock=reading.clock))
            first = next(earlier.line for earlier in again if earlier.job_id == row.job_id)
            raise at(reading.path, row.line, "job_id", f"{row.job_id!r} is already in line {first}")
        yield row


def _from_first(reading: Reading, rows: list[TraceRow]) -> list[TraceRow]:
    if not rows:
        return rows
    reading.epoch_s = first_s = min(row.submit_s for row in rows)
    return [row._replace(submit_s=row.submit_s - first_s) for row in rows]


def _by_submission(jobs: list[Job], lengths: list[float]) -> tuple[list[Job], list[float]]:
    """The jobs in order of submission, those of one instant in the file's order, numbered by it; lengths alike."""
    if any(later.submit_s < job.submit_s for job, later in pairwise(jobs)):
        jobs.sort(key=lambda job: job.submit_s)
        lengths = [lengths[job.index] for job in jobs] if lengths else []
        for index, job in enumerate(jobs):
            job.index = index
    return jobs, lengths
