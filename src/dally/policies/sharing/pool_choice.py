"""Which pool a job waits in: a slower type of GPU now against a faster one later."""

from __future__ import annotations

from typing import NamedTuple

from dally.model import Job
from dally.policies.sharing.pool import Pool
from dally.policies.view import View

FIRST_GUESS_S = 3600.0  # of what a job has left, until some have finished
WORTH = 2.0  # a move to a faster type must save so many times its restart


class Standing(NamedTuple):
    """What stands in front of a pool."""

    pool: Pool
    view: View
    wanted: int  # GPUs held and asked for
    free: int  # GPUs that nobody holds or could start on


class Lengths:
    """How long jobs of each size ran, as a mean that forgets: all that is known of those to come."""

    def __init__(self) -> None:
        self._mean_s: dict[int, float] = {}  # by the number of bits of the gang's size

    def learn(self, job: Job) -> None:
        """The job has finished."""
        size = int(job.gpus).bit_length()
        before_s = self._mean_s.get(size, job.work_s)
        self._mean_s[size] = before_s + (job.work_s - before_s) / 16.0

    def left_s(self, job: Job, had_s: float) -> float:
        """What it is expected to have left: the mean, or as much as it has had if that is more."""
        return max(self._mean_s.get(int(job.gpus).bit_length(), FIRST_GUESS_S), had_s)


def wait_s(standing: Standing, job: Job, left_s: float) -> float:
    """How long a job that joins them waits: until what is wanted above the pool's size has run."""
    gpus = standing.pool.gpus
    return max(0, standing.wanted + int(job.gpus) - gpus) * left_s / gpus if gpus else float("inf")


def finish_s(standing: Standing, job: Job, left_s: float) -> float:
    """When it would be done there, from now."""
    return wait_s(standing, job, left_s) + standing.view.best(job) * left_s


def soonest(standings: list[Standing], job: Job, left_s: float, moves: bool) -> Pool:
    """The pool in which the job would be done first; the fastest of equals, then the first.

    If it `moves` to faster GPUs as they become free, it waits for none while others are free.
    """
    fitting = [one for one in standings if one.pool.cluster.topology.closest_tier(job.gpus, job.group) >= 0]
    fitting = fitting or standings
    if moves:
        fitting = [one for one in fitting if one.free >= job.gpus] or fitting
    return min(fitting, key=lambda one: (finish_s(one, job, left_s), one.view.best(job), one.pool.number)).pool


def is_worth_moving(own: float, then: float, left_s: float, cost_s: float) -> bool:
    """Whether a running job gains by other GPUs what its restart costs, and as much again; by slowdowns."""
    return (own - then) * left_s > WORTH * cost_s
