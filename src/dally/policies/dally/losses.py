"""What running gangs lose by not being where they would be fastest: who, and all of them together."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.model import Job
from dally.pickles import picklable
from dally.policies.dally.pricing import Prices

CLOSE: Final = 1e-6  # a sum kept up to date is farther off by far less


class Losses:
    """Running gangs on several machines, those of them that are slow, and GPUs lost to slowness.

    Kept up to date as speeds change: a pass must not look at everybody who runs.
    """

    __slots__ = ("_changes", "_least_excess", "_lost", "_sum", "slow", "spread")

    def __init__(self, least_excess: float) -> None:
        self._least_excess: float = least_excess
        self.spread: dict[int, Job] = {}
        self.slow: dict[int, Job] = {}  # those whose slowdown over the best is above `least_excess`
        self._lost: dict[int, float] = {}  # GPUs that each loses, where that is not 0
        self._sum: float = 0.0  # of these, but for rounding
        self._changes: i64 = 0  # of the sum since it was last added up

    def note(self, job: Job, prices: Prices) -> None:
        """The job runs, from now on at this speed."""
        allocation = job.allocation
        if allocation is None or len(allocation.machines) < 2:
            return
        index = int(job.index)
        self.spread[index] = job
        excess = prices.excess(job) if job.rate > 0.0 else 1.0
        self._lose(index, (excess - 1.0) * float(job.gpus))
        if excess > self._least_excess:
            self.slow[index] = job
        else:
            self.slow.pop(index, None)

    def look_again(self, prices: Prices) -> None:
        """The best that gangs can hope for is another one now."""
        for job in list(self.spread.values()):
            self.note(job, prices)

    def remove(self, job: Job) -> None:
        """The job runs no more."""
        index = int(job.index)
        if index in self.spread:
            del self.spread[index]
            self.slow.pop(index, None)
            self._lose(index, 0.0)

    def _lose(self, index: int, lost: float) -> None:
        before = self._lost.get(index, 0.0)
        if lost == before:
            return
        if lost == 0.0:
            del self._lost[index]
        else:
            self._lost[index] = lost
        self._sum += lost - before
        self._changes += 1
        if self._changes > len(self._lost):  # so that rounding never builds up
            self._sum = self._added_up()
            self._changes = 0

    def _added_up(self) -> float:
        total = 0.0
        for lost in self._lost.values():
            total += lost
        return total

    def slower_than(self, most: float, running: i64) -> bool:
        """Whether those who run on so many GPUs are more than `most` times slower than they could be."""
        if running <= 0:
            return most < 1.0
        slowdown = 1.0 + self._sum / float(running)
        if -CLOSE < slowdown - most < CLOSE:  # a decision must not hang on how the sum came about
            slowdown = 1.0 + self._added_up() / float(running)
        return slowdown > most


picklable(Losses, 1.0)
