"""Our orders against what Slurm shows: what they have come to so far, and whether a start is permitted."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from dally.cluster.formats.hostlist import expand_list
from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedJob, Placement
from dally.live.backends.slurm.job_record import JobRecord, text_of

RAN_NOWHERE = "BadConstraints"  # Slurm's word, which it shows for a moment


def held_again(record: JobRecord | None) -> bool:
    """Whether Slurm itself holds the job, which was released a moment ago: it found that no node could run it."""
    shown = text_of(record.row, "state_reason") if record is not None else ""
    return record is not None and record.pending and not record.released and shown in ("None", RAN_NOWHERE)


def with_orders(
    job: ObservedJob, starting: Container[str], refused: dict[str, str], stopping: Container[str]
) -> ObservedJob:
    """The job with what our orders have come to that Slurm does not show yet."""
    if job.job_id in stopping and job.state in (base.QUEUED, base.STARTING, base.RUNNING, base.BLOCKED):
        return replace(job, state=base.STOPPING)
    if job.state == base.QUEUED and job.job_id in refused:
        return replace(job, state=base.BLOCKED, reason=refused[job.job_id])
    if job.state == base.QUEUED and job.job_id in starting:
        return replace(job, state=base.STARTING)
    return job


def check_permitted(job: ObservedJob, placement: Placement) -> None:
    """A start must not take a job's own node list, exclusions or partition from it."""
    spec = job.spec
    include, exclude = (set(expand_list(text)) if text else set() for text in (spec.include, spec.exclude))
    if not include <= placement.keys():
        raise BackendError(f"job {job.job_id} asks for {spec.include}, not {','.join(placement)}")
    outside = exclude & placement.keys() or (placement.keys() - job.allowed if job.allowed is not None else set())
    if outside:
        raise BackendError(f"job {job.job_id} must not run on {min(outside)}")
