"""Running gangs that would gain by a faster type of GPU of which some are free."""

from __future__ import annotations

from typing import NamedTuple

from dally.model import Allocation, Job
from dally.policies.placement.best_fit import BestFit
from dally.policies.sharing.pool import Pool
from dally.policies.sharing.pool_choice import Lengths, Standing, is_worth_moving
from dally.policies.view import View


class MoveUp(NamedTuple):
    """A gang that moves to another pool, and what each of its GPUs there gains by it."""

    job: Job
    pool: Pool
    allocation: Allocation
    saved_s: float


def best_move(job: Job, here: View, open_to: list[Standing], lengths: Lengths, now: float) -> MoveUp | None:
    """The move to a pool with enough free GPUs that saves most, if it pays for the gang's restart."""
    found: MoveUp | None = None
    own = 1.0 / job.rate
    left_s = lengths.left_s(job, job.done_s(now))
    cost_s = here.restart_s(job) + here.at_risk_s(job, now)
    for standing in open_to:
        if standing.view.best(job) >= own or standing.free < job.gpus:
            continue
        allocation = BestFit().place(job, now, standing.pool.cluster)
        if allocation is None:
            continue
        slowdown, inflicted = standing.view.slowdown(job, allocation)
        then = slowdown + inflicted
        saved_s = ((own - then) * left_s - cost_s) / float(job.gpus)
        if is_worth_moving(own, then, left_s, cost_s) and (found is None or saved_s > found.saved_s):
            found = MoveUp(job, standing.pool, allocation, saved_s)
    return found
