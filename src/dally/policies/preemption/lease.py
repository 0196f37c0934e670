"""Preemption when a lease ends."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from dally.model import Job
from dally.policies.base import Param
from dally.policies.ordering.base import Order
from dally.policies.preemption.base import Preemption

LEASE: Final = Param("lease_s", 3600.0, "seconds for which GPUs are granted", 1e-3, period=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class LeasePreemption(Preemption):
    """GPUs are granted for `lease_s`; when that is over, better-ranked jobs may take them."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self._ended: list[Job] = []  # leases that ended at this instant, worst rank last

    def lease_ended(self, job: Job) -> None:
        self._ended.append(job)

    def begin_pass(self, order: Order, now: float) -> None:
        if len(self._ended) > 1:
            rows = [(order.key(job, now), order.tie(job), int(job.index), job) for job in self._ended]
            rows.sort(key=lambda row: row[:3])
            self._ended = [row[3] for row in rows]

    def worst(self, order: Order, now: float) -> Job | None:
        return self._ended[-1] if self._ended else None

    def set_aside(self, job: Job) -> None:
        self._ended.pop()

    def keep(self, job: Job, order: Order, now: float) -> None:
        self._ended.append(job)

    def stopped(self, job: Job) -> None:
        for place in range(len(self._ended) - 1, -1, -1):
            if self._ended[place] is job:
                del self._ended[place]
                break

    def end_pass(self) -> None:
        self._ended.clear()
