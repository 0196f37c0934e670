"""What a preemption rule is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from mypy_extensions import mypyc_attr

from dally.model import INFINITY, Job
from dally.policies.ordering.base import Order
from dally.policies.part import Part


@mypyc_attr(allow_interpreted_subclasses=True)
class Preemption(Part):
    """Hands out the running jobs that may lose their GPUs now, worst-ranked first."""

    def lease_s(self) -> float:
        """For how long GPUs are granted."""
        return INFINITY

    def begin_pass(self, order: Order, now: float) -> None:
        """A scheduling pass begins."""

    def worst(self, order: Order, now: float) -> Job | None:
        """The worst-ranked job that may be preempted and was not set aside yet."""
        return None

    def candidates(self, order: Order, now: float, key: float) -> list[Job]:
        """All jobs that may be preempted for one of that rank, worst-ranked first."""
        return []

    def wakeup_s(self, now: float, waiting: bool) -> float:
        """When running jobs become preemptible by themselves."""
        return INFINITY

    def reranked(self, job: Job, order: Order, now: float) -> None:
        """A running job's rank has changed by itself."""

    def set_aside(self, job: Job) -> None:
        """The job that `worst` named is being weighed against those who wait."""

    def keep(self, job: Job, order: Order, now: float) -> None:
        """A job set aside keeps its GPUs after all."""

    def end_pass(self) -> None:
        """The pass is over."""

    def started(self, job: Job, order: Order, now: float) -> None:
        """The job runs."""

    def stopped(self, job: Job) -> None:
        """The job runs no more."""

    def lease_ended(self, job: Job) -> None:
        """The job's lease is over."""


class NoPreemption(Preemption):
    """Whoever runs, runs to the end."""


class Ranking:
    """Running jobs as they rank in one pass, worst first."""

    def __init__(self, jobs: Iterable[Job], order: Order, now: float) -> None:
        here = list(jobs)
        keys: list[float] = [-order.key(job, now) for job in here]
        places = list(range(len(here)))
        # Sorting keeps the order of equals: what counts most comes last. Made at every round, so it must be quick.
        places.sort(key=[-int(job.index) for job in here].__getitem__)
        places.sort(key=[-order.tie(job) for job in here].__getitem__)
        places.sort(key=keys.__getitem__)
        self._jobs: list[Job] = [here[place] for place in places]
        self._keys: list[float] = [keys[place] for place in places]

    def behind(self, key: float) -> list[Job]:
        """Those ranked behind the key."""
        return self._jobs[: bisect_left(self._keys, -key)]

    def remove(self, job: Job) -> None:
        """The job runs no more."""
        for place, other in enumerate(self._jobs):
            if other is job:
                del self._jobs[place]
                del self._keys[place]
                return
