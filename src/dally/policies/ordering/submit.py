"""First come, first served."""

from __future__ import annotations

from dally.model import Job
from dally.policies.ordering.base import Order


class SubmitOrder(Order):
    """By submit time; a job that lost its GPUs keeps its old place."""

    def key(self, job: Job, now: float) -> float:
        return job.submit_s
