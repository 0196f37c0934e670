"""What of the queue is Dally's and what is left to Slurm, for operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dally.live.backends.slurm.job_record import JobRecord, text_of, whole_records
from dally.live.backends.slurm.jobs_json import JobReader
from dally.live.backends.slurm.left_alone import GPU_FIELDS

UNMARKED = "came before the set-up, or is of a partition that job_submit.lua does not know"
NO_REQUEUE = "cannot be requeued (--no-requeue or interactive): it runs to its end"


@dataclass(frozen=True)
class LeftJob:
    """A job with GPUs that Dally leaves to Slurm, or does not stop."""

    job_id: str
    user: str
    state: str
    reason: str


@dataclass(frozen=True)
class Survey:
    """All jobs that ask for GPUs."""

    left: tuple[LeftJob, ...]
    managed: dict[str, int]  # by Slurm's state


def survey(rows: Iterable[dict[str, Any]], reader: JobReader) -> Survey:
    """Of the jobs of `squeue --json` that have not ended."""
    left: list[LeftJob] = []
    managed: Counter[str] = Counter()
    for record in whole_records(rows):
        if record.ended or not any("gpu" in text_of(record.row, field) for field in GPU_FIELDS):
            continue
        state = "+".join(sorted(record.states))
        reason = _reason(record, reader)
        if reason:
            left.append(LeftJob(record.job_id, text_of(record.row, "user_name"), state, reason))
        else:
            managed[state] += 1
    return Survey(tuple(left), dict(sorted(managed.items())))


def _reason(record: JobRecord, reader: JobReader) -> str:
    why = reader.left_to_slurm(record)
    if why:
        return why
    if record.mark is None:
        return UNMARKED
    can_requeue = record.row.get("batch_flag") and record.row.get("requeue")
    return "" if record.pending or can_requeue else NO_REQUEUE
