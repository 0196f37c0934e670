"""When to try again what did not work: on a large cluster one start or stop changes little for others."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.model import Job
from dally.pickles import picklable

LARGE: Final = 256  # machines; with fewer all are looked at afresh after every change
MACHINES_PER_CHANGE: Final = 64


class Retries:
    """Jobs for which nothing was found, each until enough others have started or stopped, or for a while.

    A gang that waits for a domain costs most of a pass. Where there are thousands of domains what stops in one of
    them is likely no help: a job must have started or stopped for every 64 machines before it is tried again.
    """

    __slots__ = ("_changes", "_every", "_failed", "_while_s")

    def __init__(self, while_s: float) -> None:
        self._while_s: float = while_s
        self._every: i64 = 0
        self._changes: i64 = 0
        self._failed: dict[int, tuple[int, float]] = {}  # after how many changes, and when, by job

    def begin_pass(self, machines: i64, running: i64) -> None:
        """The cluster has so many machines, and so many jobs run; with none nothing would come of waiting."""
        if running == 0:
            self._failed.clear()
        self._every = machines // MACHINES_PER_CHANGE if machines >= LARGE else 0

    def large(self) -> bool:
        """Whether the cluster is one where not everything is looked at in every pass."""
        return self._every > 0

    def changed(self) -> None:
        """A job started or stopped."""
        self._changes += 1

    def failed(self, job: Job, now: float) -> None:
        """Nothing was found for the job."""
        if self._every > 0:
            self._failed[int(job.index)] = (int(self._changes), now)

    def is_due(self, job: Job, now: float) -> bool:
        """Whether it is worth a look, again or for the first time."""
        if self._every == 0:
            return True
        before = self._failed.get(int(job.index))
        return before is None or self._changes - before[0] >= self._every or now >= before[1] + self._while_s

    def forget(self, job: Job) -> None:
        """The job started, stopped or is gone: what was tried for it is over."""
        if self._failed:
            self._failed.pop(int(job.index), None)


picklable(Retries, 0.0)
