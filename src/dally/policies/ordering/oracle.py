"""Orders that know how long a job will take."""

from __future__ import annotations

from dally.model import Job
from dally.policies.ordering.base import Order


class ShortestJob(Order):
    """By duration."""

    def key(self, job: Job, now: float) -> float:
        return job.duration_s


class ShortestRemaining(Order):
    """By work left, in seconds at full speed."""

    def key(self, job: Job, now: float) -> float:
        return job.remaining_s(now)


class SmallestRemaining(Order):
    """By work left times GPUs: remaining service."""

    def key(self, job: Job, now: float) -> float:
        return job.remaining_s(now) * float(job.gpus)
