"""Preemption in rounds: time slices."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.ordering.base import Order
from dally.policies.preemption.base import Preemption
from dally.policies.rounds import next_round_s


class Turn:
    """A running job, and when its restart was over."""

    __slots__ = ("job", "works_from_s")

    def __init__(self, job: Job, works_from_s: float) -> None:
        self.job: Job = job
        self.works_from_s: float = works_from_s


picklable(Turn, Job(0, "", 0.0, 1, 0.0), 0.0)


@mypyc_attr(allow_interpreted_subclasses=True)
class SlicePreemption(Preemption):
    """Every `slice_s` seconds, jobs that have worked for a slice may lose their GPUs to those who wait."""

    def __init__(self, slice_s: float) -> None:
        self._slice_s: float = slice_s
        self._running: dict[int, Turn] = {}
        self._first_s: float = INFINITY  # the first submission, from which rounds count
        self._round_s: float = INFINITY  # when the next round is due, while somebody waits
        self._ranked: list[Job] | None = None  # who may be preempted in this pass, worst last; None: not asked yet

    def begin_pass(self, order: Order, now: float) -> None:
        self._ranked = None

    def worst(self, order: Order, now: float) -> Job | None:
        if now < self._round_s:
            return None
        if self._ranked is None:
            self._ranked = self._rank(order, now)
        return self._ranked[-1] if self._ranked else None

    def set_aside(self, job: Job) -> None:
        if self._ranked is not None:
            self._ranked.pop()

    def keep(self, job: Job, order: Order, now: float) -> None:
        if self._ranked is not None:
            self._ranked.append(job)

    def _rank(self, order: Order, now: float) -> list[Job]:
        """Jobs that have worked for a slice, the worst-ranked last."""
        here: list[Job] = []
        for turn in self._running.values():
            if turn.works_from_s + self._slice_s <= now:
                here.append(turn.job)
        places = list(range(len(here)))
        # Sorting keeps the order of equals: what counts most comes last. Made at every round, so it must be quick.
        places.sort(key=[int(job.index) for job in here].__getitem__)
        places.sort(key=[order.tie(job) for job in here].__getitem__)
        places.sort(key=[order.key(job, now) for job in here].__getitem__)
        return [here[place] for place in places]

    def wakeup_s(self, now: float, waiting: bool) -> float:
        if not waiting or not self._running:
            self._round_s = INFINITY  # with nobody to preempt, who waits fits nowhere: no round would help
        elif now >= self._round_s or self._round_s == INFINITY:
            self._round_s = next_round_s(now, self._slice_s, self._first_s)
        return self._round_s

    def queued(self, job: Job, now: float) -> None:
        if self._first_s == INFINITY:
            self._first_s = now

    def started(self, job: Job, order: Order, now: float) -> None:
        self._running[int(job.index)] = Turn(job, job.since_s)

    def stopped(self, job: Job) -> None:
        del self._running[int(job.index)]
        if self._ranked is not None:
            for place in range(len(self._ranked) - 1, -1, -1):
                if self._ranked[place] is job:
                    del self._ranked[place]
                    break
