"""The least makespan, and the least mean completion time: the largest of three bounds."""

from __future__ import annotations

from typing import Final

from dally.metrics.bounds.ascent import best_priced_total_s
from dally.metrics.bounds.busy_time import busy_time_total_s, srpt_total_s
from dally.metrics.bounds.offered import Grid, Workload, workload_of
from dally.model import Job


def least_makespan_s(workload: Workload) -> float:
    """At least this long from the first submission to the last finish.

    A job cannot end before its submission plus its duration; and the jobs submitted from any moment
    on need their GPU-seconds, at best with every GPU busy from then on.
    """
    bound = 0.0
    later_work = 0.0
    for place in range(len(workload) - 1, -1, -1):
        submit_s = workload.submit_s[place]
        duration_s = workload.duration_s[place]
        later_work += duration_s * workload.size[place]
        bound = max(bound, submit_s + duration_s, submit_s + later_work / workload.gpus)
    return bound


def makespan_bound_s(jobs: list[Job], gpus: int, slowdowns: list[float] | None = None) -> float:
    """At least this long from the first submission to the last finish, in seconds."""
    return least_makespan_s(workload_of(jobs, gpus, slowdowns))


MOST_BINS: Final = 400  # of time from the first submission to the makespan's bound: a price in each,
BINS_A_JOB: Final = 4  # and fewer for a few jobs


class JctBounds:
    """Each bound on the mean completion time, in seconds: as long as a job alone, and (a), (b), (c)."""

    __slots__ = ("busy_time_s", "duration_s", "one_machine_s", "priced_s")

    def __init__(self, workload: Workload) -> None:
        jobs = float(len(workload))
        grid = Grid(least_makespan_s(workload), min(MOST_BINS, BINS_A_JOB * len(workload)))
        self.duration_s: float = workload.durations_s() / jobs
        self.one_machine_s: float = srpt_total_s(workload) / jobs
        self.busy_time_s: float = busy_time_total_s(workload, grid) / jobs
        self.priced_s: float = best_priced_total_s(workload, grid) / jobs

    def largest_s(self) -> float:
        """The bound, in seconds."""
        return max(self.duration_s, self.one_machine_s, self.busy_time_s, self.priced_s)


def jct_bound_s(jobs: list[Job], gpus: int, slowdowns: list[float] | None = None) -> float:
    """At least this mean completion time; `slowdowns`: by how much each job's duration cannot be met."""
    return JctBounds(workload_of(jobs, gpus, slowdowns)).largest_s() if jobs else 0.0
