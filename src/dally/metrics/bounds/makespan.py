"""The least time from the first submission to the last finish."""

from __future__ import annotations

from dally.metrics.bounds.offered import Workload, workload_of
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
