"""One imaginary machine that serves jobs one at a time, the one with the least work left first."""

from __future__ import annotations

from mypy_extensions import i64

from dally.heap import IndexedHeap
from dally.model import INFINITY
from dally.pickles import picklable


class VirtualMachine:
    """Preemptive shortest remaining processing time: the order in which it lets jobs go is a guide.

    Work is in GPU-seconds, and the machine does as much of it in a second as the cluster has GPUs.
    """

    __slots__ = ("_gpus", "_left", "_now", "_since")

    def __init__(self) -> None:
        self._gpus: float = 1.0
        self._left: IndexedHeap = IndexedHeap()  # jobs by GPU-seconds left, the served one as of `_since`
        self._now: float = 0.0
        # Not brought up to date at every look, or rounding would make the outcome depend on how often one looks.
        self._since: float = 0.0

    def add(self, job: i64, gpu_s: float) -> None:
        """A job comes with so much work, at the moment last advanced to."""
        served = self._left.first()
        if served >= 0:
            self._left.put(served, self.left_gpu_s(served), 0.0)
        self._since = self._now
        self._left.put(job, gpu_s, 0.0)

    def remove(self, job: i64) -> None:
        """Nothing is left to do of a job, if it holds it: what it was doing since last advanced goes to others."""
        if job == self._left.first():
            self._since = self._now
        self._left.discard(job)

    def holds(self, job: i64) -> bool:
        return self._left.holds(job)

    def left_gpu_s(self, job: i64) -> float:
        """Work left of a job it holds."""
        left = self._left.key(job)
        if job == self._left.first():
            left -= (self._now - self._since) * self._gpus
        return left if left > 0.0 else 0.0

    def served(self) -> i64:
        """The job it works on, or -1."""
        return self._left.first()

    def advance(self, now: float, gpus: float) -> list[int]:
        """Work until then, as fast as so many GPUs; returns the jobs that are done, in that order."""
        self._gpus = gpus
        done: list[int] = []
        while len(self._left) > 0:
            end_s = self.next_done_s()
            if end_s > now:
                break
            self._since = end_s
            done.append(int(self._left.pop()))
        self._now = now
        return done

    def next_done_s(self) -> float:
        """When it lets the next job go if no other comes."""
        if len(self._left) == 0:
            return INFINITY
        return self._since + self._left.key(self._left.first()) / self._gpus


picklable(VirtualMachine)
