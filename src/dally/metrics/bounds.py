"""Lower bounds that no scheduler can beat, on any placement and with free preemption."""

from __future__ import annotations

from dally.heap import IndexedHeap
from dally.model import Job


def makespan_bound_s(jobs: list[Job], gpus: int) -> float:
    """At least this long from the first submission to the last finish.

    A job cannot end before its submission plus its duration; and the jobs submitted from any moment
    on need their GPU-seconds, at best with every GPU busy from then on.
    """
    if not jobs:
        return 0.0
    bound = 0.0
    later_work = 0.0
    for place in range(len(jobs) - 1, -1, -1):
        job = jobs[place]
        later_work += job.duration_s * float(job.gpus)
        bound = max(bound, job.submit_s + job.duration_s, job.submit_s + later_work / float(gpus))
    return bound - jobs[0].submit_s


def jct_bound_s(jobs: list[Job], gpus: int) -> float:
    """At least this mean completion time.

    Pretend all GPUs are one fast machine that any job can use whole: there, shortest remaining
    processing time first is optimal. And no job beats its own duration.
    """
    if not jobs:
        return 0.0
    durations = 0.0
    for job in jobs:
        durations += job.duration_s
    return max(_srpt_total_s(jobs, float(gpus)), durations) / float(len(jobs))


def _srpt_total_s(jobs: list[Job], speed: float) -> float:
    """Sum of completion times under SRPT on one machine that does `speed` GPU-seconds a second."""
    left = IndexedHeap()  # by seconds of work left
    total = 0.0
    now = 0.0
    for place in range(len(jobs)):
        submit_s = jobs[place].submit_s
        while len(left) > 0:
            first = left.first()
            done_s = now + left.key(first)
            if done_s > submit_s:
                left.put(first, done_s - submit_s, 0.0)
                break
            left.remove(first)
            now = done_s
            total += done_s - jobs[first].submit_s
        now = submit_s
        left.put(place, jobs[place].duration_s * float(jobs[place].gpus) / speed, 0.0)
    while len(left) > 0:
        first = left.first()
        now += left.key(first)
        total += now - jobs[first].submit_s
        left.remove(first)
    return total
