"""A move: a running job, where it would go, and what that costs and brings."""

from __future__ import annotations

from dally.model import Allocation, Job


class Move:
    """A running job, where it would go, and what that costs and brings it, in seconds."""

    __slots__ = ("allocation", "cost_s", "job", "saved_s")

    def __init__(self, job: Job, allocation: Allocation, cost_s: float, saved_s: float) -> None:
        self.job: Job = job
        self.allocation: Allocation = allocation
        self.cost_s: float = cost_s
        self.saved_s: float = saved_s
