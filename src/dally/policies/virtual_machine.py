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

    __slots__ = ("_gpus", "_left", "_now")

    def __init__(self) -> None:
        self._gpus: float = 1.0
        self._left: IndexedHeap = IndexedHeap()  # jobs by GPU-seconds left, the served one as of `_now`
        self._now: float = 0.0

    def add(self, job: i64, gpu_s: float) -> None:
        """A job comes with so much work, at the moment last advanced to."""
        self._left.put(job, gpu_s, 0.0)

    def remove(self, job: i64) -> None:
        """Nothing is left to do of a job, if it holds it: what it was doing since last advanced goes to others."""
        self._left.discard(job)

    def holds(self, job: i64) -> bool:
        return self._left.holds(job)

    def left_gpu_s(self, job: i64) -> float:
        """Work left of a job it holds."""
        return self._left.key(job)

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
                served = self._left.first()
                left = self._left.key(served) - (now - self._now) * gpus
                self._left.put(served, max(left, 0.0), 0.0)
                break
            self._now = end_s
            done.append(int(self._left.pop()))
        self._now = now
        return done

    def next_done_s(self) -> float:
        """When it lets the next job go if no other comes."""
        if len(self._left) == 0:
            return INFINITY
        return self._now + self._left.key(self._left.first()) / self._gpus


picklable(VirtualMachine)
