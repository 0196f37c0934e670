"""Elastic jobs in the engine: the size that one gets, what a change of it counts as, and what that costs."""

from __future__ import annotations

from mypy_extensions import i64

from dally.model import MIGRATE, RESIZE, Allocation, Job
from dally.perf.base import SpeedModel


def hold(job: Job, gpus: i64, speed: SpeedModel) -> None:
    """An elastic job that holds no GPUs gets so many."""
    account = job.size_account
    if account is None:
        return
    account.hold(job, gpus, speed.speedup(job, gpus))
    job.gpus = gpus


def note_move(job: Job, allocation: Allocation) -> i64:
    """Count a move, or a change of size, of a job that has just given its GPUs back; which of both it is."""
    account = job.size_account
    if account is None:
        job.migrations += 1
        return MIGRATE
    job.gpus = allocation.total()  # what it restarts at
    if job.gpus == account.gpus:
        job.migrations += 1
        return MIGRATE
    job.resizes += 1
    return RESIZE


def pause_s(job: Job, kind: i64, restart_s: float) -> float:
    """Seconds until the job goes on after a move, which is a restart unless it states what a resize takes."""
    account = job.size_account
    if kind != RESIZE or account is None:
        return restart_s
    stated_s = account.resize_s
    return restart_s if stated_s is None else stated_s


def is_size(job: Job, gpus: i64) -> bool:
    """Whether the job may run on so many GPUs."""
    return gpus == job.gpus or int(gpus) in job.sizes
