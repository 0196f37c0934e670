"""Our orders against what Slurm shows: what they have come to so far, and whether a start is permitted."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from dally.cluster.formats.hostlist import expand_list
from dally.live.backends import base
from dally.live.backends.base import BackendError, Observed, ObservedJob, Placement
from dally.live.backends.slurm.job_record import JobRecord, text_of
from dally.live.backends.slurm.jobs_json import TOO_LATE
from dally.sizes import read_sizes

RAN_NOWHERE = "BadConstraints"  # Slurm's word, which it shows for a moment

# What Slurm shows of a job on its way out; a script that SIGTERM ended counts as ended until the job is requeued.
MAY_BE_STOPPING = (base.QUEUED, base.STARTING, base.RUNNING, base.BLOCKED, base.FINISHED, base.FAILED)


def held_again(record: JobRecord | None) -> bool:
    """Whether Slurm itself holds the job, which was released a moment ago: it found that no node could run it."""
    shown = text_of(record.row, "state_reason") if record is not None else ""
    return record is not None and record.pending and not record.released and shown in ("None", RAN_NOWHERE)


def too_late(jobs: Iterable[ObservedJob], records: Mapping[str, JobRecord]) -> list[str]:
    """Jobs of ours that are to be released for Slurm to end them: as long as one is held, Slurm does not."""
    blocked = (job.job_id for job in jobs if job.managed and job.state == base.BLOCKED and job.reason == TOO_LATE)
    return [job_id for job_id in blocked if not records[job_id].released]


def with_orders(
    job: ObservedJob, starting: Container[str], refused: dict[str, str], stopping: Container[str]
) -> ObservedJob:
    """The job with what our orders have come to that Slurm does not show yet."""
    if job.job_id in stopping and job.state in MAY_BE_STOPPING:
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


def check_free(job: ObservedJob, placement: Placement, free: Mapping[str, int]) -> None:
    """A start is of as many GPUs as the job asks for, or of one of its sizes, and all of them are free."""
    sizes = (job.spec.gpus, *(read_sizes(job.spec.sizes, job.spec.gpus) if job.resizable else ()))
    if sum(placement.values()) not in sizes or min(placement.values(), default=0) < 1:
        demand = " or ".join(map(str, sorted({*sizes})))
        raise BackendError(f"job {job.job_id} asks for {demand} GPUs, not {sum(placement.values())}")
    for name, gpus in placement.items():
        if gpus > free.get(name, 0):
            raise BackendError(f"job {job.job_id}: {name} has {free.get(name, 0)} free GPUs, not {gpus}")


def free_gpus(
    observed: Observed, but_of: str = "", promised: Mapping[str, Placement] | None = None
) -> dict[str, int]:
    """By machine, as of that snapshot and what was promised since; one job counts as if it had none."""
    free = {machine.name: machine.gpus if machine.state == base.UP else 0 for machine in observed.machines}
    live = [job for job in observed.jobs if job.state not in base.ENDED]
    held = {**(promised or {}), **{job.job_id: job.placement for job in live if job.placement}}
    held.pop(but_of, None)  # a start that is still under way may show already: it counts once
    for parts in held.values():
        for name, gpus in parts.items():
            if name in free:
                free[name] -= gpus
    return free
