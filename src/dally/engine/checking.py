"""Whether what a policy asks for can be done."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.engine.sizing import is_size
from dally.errors import PolicyError
from dally.model import RUNNING, WAITING, Action, Allocation, Job, Migrate, Start

NON_PREEMPTIBLE: Final = "it cannot be stopped"
NON_MIGRATABLE: Final = "it is not to be moved"


def check(cluster: Cluster, action: Action) -> str:
    """Why the action is refused, or nothing if it is not; PolicyError if it makes no sense."""
    job = action.job
    if isinstance(action, Start):
        if job.status != WAITING:
            raise PolicyError(f"{job!r} was started but does not wait")
        _check_place(cluster, job, action.allocation, None)
        return ""
    if job.status != RUNNING:
        raise PolicyError(f"{job!r} was preempted or migrated but does not run")
    if isinstance(action, Migrate):
        _check_place(cluster, job, action.allocation, job.allocation)
        if job.non_migratable:
            return NON_MIGRATABLE
    return NON_PREEMPTIBLE if job.non_preemptible else ""


def _check_place(cluster: Cluster, job: Job, allocation: Allocation, held: Allocation | None) -> None:
    """Raise PolicyError unless these GPUs are as many as the job may run on, and free or its own."""
    if not is_size(job, allocation.total()):
        demand = " or ".join([str(size) for size in job.sizes]) or str(int(job.gpus))
        raise PolicyError(f"job {job.job_id} asks for {demand} GPUs, was given {allocation!r}")
    fit = cluster.feasibility
    free = cluster.free[0] if fit is None else fit.free
    for part in range(len(allocation.machines)):
        machine = allocation.machines[part]
        gpus = allocation.gpus[part]
        known = machine >= 0 and machine < len(free)
        if held is not None and known:
            gpus -= _held_on(held, machine)
        if not known or allocation.gpus[part] < 1 or free[machine] < gpus:
            raise PolicyError(f"job {job.job_id}: {allocation!r} takes GPUs that are not free")
    if fit is not None:
        reason = fit.refusal(job.signature, allocation, held)
        if reason:
            raise PolicyError(f"job {job.job_id}: {allocation!r}: {reason}")


def _held_on(allocation: Allocation, machine: i64) -> i64:
    for part in range(len(allocation.machines)):
        if allocation.machines[part] == machine:
            return allocation.gpus[part]
    return 0
