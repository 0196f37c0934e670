"""Orders by what a job has been given so far; no knowledge of durations needed."""

from __future__ import annotations

from dally.model import Job
from dally.policies.ordering.base import Order


class LeastAttained(Order):
    """By GPU-seconds held so far, restarts included."""

    def key(self, job: Job, now: float) -> float:
        return job.run_s(now) * float(job.gpus)
