"""Preemption at every event."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.heap import IndexedHeap
from dally.model import Job
from dally.policies.ordering.base import Order
from dally.policies.preemption.base import Preemption


@mypyc_attr(allow_interpreted_subclasses=True)
class EventPreemption(Preemption):
    """Any running job may lose its GPUs whenever a better-ranked one needs them.

    The heap holds each job's key as last seen. As keys of running jobs only fall, and `reranked` tells
    of those that rose, that is an upper bound: once the top has been brought up to date and is still
    the top, it is the worst. This keeps the cost of an event far below the number of running jobs.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._heap: IndexedHeap = IndexedHeap(largest_first=True)

    def worst(self, order: Order, now: float) -> Job | None:
        while True:
            item = self._heap.first()
            if item < 0:
                return None
            job = self._jobs[int(item)]
            key = order.key(job, now)
            if key == self._heap.key(item):
                return job
            self._heap.put(item, key, order.tie(job))

    def reranked(self, job: Job, order: Order, now: float) -> None:
        self._heap.put(job.index, order.key(job, now), order.tie(job))

    def set_aside(self, job: Job) -> None:
        self._heap.remove(job.index)

    def keep(self, job: Job, order: Order, now: float) -> None:
        self._heap.put(job.index, order.key(job, now), order.tie(job))

    def started(self, job: Job, order: Order, now: float) -> None:
        self._jobs[int(job.index)] = job
        self._heap.put(job.index, order.key(job, now), order.tie(job))

    def stopped(self, job: Job) -> None:
        del self._jobs[int(job.index)]
        self._heap.discard(job.index)
