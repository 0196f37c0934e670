"""What else could be told to somebody who waits: Slurm's plan by time limits, and the mean wait of late."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from dally.model import Job
from dally.policies.prediction.hazard import size_class

HOUR_S = 3600.0
# Time limits that people choose from; each job has the next one above its true duration, which is kind to Slurm.
LIMITS_S = tuple(hours * HOUR_S for hours in (1, 4, 12, 24, 48, 96, 168, 336, 720))
LATEST = 50  # waits of a size that the mean is of


def limit_s(duration_s: float) -> float:
    """The time limit of a job that lasts so long."""
    return next((limit for limit in LIMITS_S if limit >= duration_s), LIMITS_S[-1])


def planned_starts_s(
    asked: Iterable[Job], waiting: Iterable[Job], running: Iterable[Job], total_gpus: int, now: float
) -> dict[int, float]:
    """When Slurm would say that these start: by submission, each as soon as limits leave it the GPUs.

    GPUs are one pool, so nobody waits for a machine of its own: kind to Slurm again.
    """
    plan = Plan(now, total_gpus)
    for other in running:
        plan.book(now, max(other.placed_s + limit_s(other.duration_s), now + 60.0), int(other.gpus))
    wanted = {int(job.index) for job in asked}
    found: dict[int, float] = {}
    for other in sorted(waiting, key=lambda one: (one.submit_s, one.index)):
        length_s = limit_s(other.duration_s)
        start_s = plan.first_fit_s(int(other.gpus), length_s)
        plan.book(start_s, start_s + length_s, int(other.gpus))
        if int(other.index) in wanted:
            found[int(other.index)] = start_s
            if len(found) == len(wanted):
                break
    return found


class Plan:
    """How many GPUs are free from which moment on."""

    def __init__(self, now: float, gpus: int) -> None:
        self._moments_s = [now]
        self._free = [gpus]

    def book(self, begin_s: float, end_s: float, gpus: int) -> None:
        """Take GPUs for a while."""
        for place in range(self._split(begin_s), self._split(end_s)):
            self._free[place] -= gpus

    def _split(self, moment_s: float) -> int:
        place = bisect_left(self._moments_s, moment_s)
        if place == len(self._moments_s) or self._moments_s[place] != moment_s:
            self._moments_s.insert(place, moment_s)
            self._free.insert(place, self._free[place - 1])
        return place

    def first_fit_s(self, gpus: int, length_s: float) -> float:
        """The first moment from which on so many are free for so long."""
        start_s: float | None = None
        for moment_s, free in zip(self._moments_s, self._free, strict=True):
            if start_s is not None and moment_s >= start_s + length_s:
                return start_s
            if free < gpus:
                start_s = None
            elif start_s is None:
                start_s = moment_s
        assert start_s is not None, "everybody ends at some time"
        return start_s


class MeanWaits:
    """The mean of the latest waits of jobs of a size that had to wait."""

    def __init__(self) -> None:
        self._waits: dict[int, deque[float]] = {}

    def started(self, job: Job, wait_s: float) -> None:
        """A job began after so long."""
        if wait_s > 0.0:
            self._waits.setdefault(size_class(job.gpus), deque(maxlen=LATEST)).append(wait_s)

    def guess_s(self, job: Job, waited_s: float) -> float:
        """How long the job has still to wait."""
        waits = self._waits.get(size_class(job.gpus))
        longer = [wait_s for wait_s in waits or () if wait_s > waited_s]
        return sum(longer) / len(longer) - waited_s if longer else 0.0
