"""Preemption in rounds: time slices."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.model import INFINITY, Job
from dally.policies.ordering.base import Order
from dally.policies.preemption.base import Preemption, Ranking


@mypyc_attr(allow_interpreted_subclasses=True)
class SlicePreemption(Preemption):
    """Every `slice_s` seconds, jobs that have worked for a slice may lose their GPUs to those who wait."""

    def __init__(self, slice_s: float) -> None:
        self._slice_s: float = slice_s
        self._running: dict[int, Job] = {}
        self._works_from_s: dict[int, float] = {}  # when its restart was over
        self._ranking: Ranking | None = None  # of this pass, if it was needed
        self._round_s: float = INFINITY  # when the next round is due, while somebody waits

    def candidates(self, order: Order, now: float, key: float) -> list[Job]:
        if now < self._round_s:
            return []
        if self._ranking is None:
            self._ranking = Ranking(self._used_up(now), order, now)
        return self._ranking.behind(key)

    def _used_up(self, now: float) -> list[Job]:
        """Jobs that have worked for a slice."""
        found: list[Job] = []
        for index, job in self._running.items():
            if self._works_from_s[index] + self._slice_s <= now:
                found.append(job)
        return found

    def begin_pass(self, order: Order, now: float) -> None:
        self._ranking = None

    def wakeup_s(self, now: float, waiting: bool) -> float:
        if not waiting:
            self._round_s = INFINITY
        elif now >= self._round_s or self._round_s == INFINITY:
            self._round_s = (now // self._slice_s + 1.0) * self._slice_s
            while self._round_s <= now:  # the division may have been rounded
                self._round_s += self._slice_s
        return self._round_s

    def started(self, job: Job, order: Order, now: float) -> None:
        self._running[int(job.index)] = job
        self._works_from_s[int(job.index)] = job.since_s

    def stopped(self, job: Job) -> None:
        del self._running[int(job.index)]
        del self._works_from_s[int(job.index)]
        if self._ranking is not None:
            self._ranking.remove(job)
