"""Taking turns."""

from __future__ import annotations

from dally.model import RUNNING, Job
from dally.policies.ordering.base import Order


class RoundRobin(Order):
    """Who has waited longest comes first; of those who run, who has run longest comes last."""

    def key(self, job: Job, now: float) -> float:
        return 2.0 * now - job.placed_s if job.status == RUNNING else job.lost_s
