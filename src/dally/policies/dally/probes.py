"""Probes: a young job that has waited many times as long as it has run gets a short turn, whatever its rank.

A rank is an expectation over jobs alike: one user's flood of jobs that end in half an hour comes before a job of
which nobody knows that it takes two minutes. A turn of a few minutes tells, and costs the others little.
"""

from __future__ import annotations

from mypy_extensions import i64

from dally.heap import IndexedHeap
from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.dally.limits import Limits


class Probes:
    """Waiting jobs with less work done than a probe lasts, by when they are due for one.

    A job is due once it has waited `probe_stretch` times as long as it has worked, or as `probe_least_s` if that is
    more. So a job that takes t seconds, from that least to a whole probe, has a slowdown of about `probe_stretch`
    at most, as long as probes find room: together they hold a share of the GPUs at most, unless it is one. A turn
    protects from ranks, not from a job whose patience has ended: the wait bound (starvation.py) knows of no turns.
    """

    __slots__ = ("_due", "_jobs", "_limits", "_probing")

    def __init__(self, limits: Limits) -> None:
        self._limits: Limits = limits
        self._jobs: dict[int, Job] = {}
        self._due: IndexedHeap = IndexedHeap()
        self._probing: dict[int, tuple[Job, float]] = {}  # by index, and until when

    def waits(self, job: Job) -> None:
        """The job begins to wait, or waits again."""
        self._probing.pop(int(job.index), None)
        limits = self._limits
        if limits.probe_share <= 0.0 or job.work_s >= limits.probe_s:
            return
        self._jobs[int(job.number)] = job
        patience_s = limits.probe_stretch * max(limits.probe_least_s, job.work_s)
        self._due.put(job.number, job.submit_s + job.held_s + patience_s, 0.0)

    def leaves(self, job: Job) -> None:
        """The job waits no more."""
        if self._jobs.pop(int(job.number), None) is not None:
            self._due.discard(job.number)

    def forget(self, job: Job) -> None:
        """The job is gone."""
        self._probing.pop(int(job.index), None)

    def next_s(self) -> float:
        """When the next job is due; in the past if one is."""
        return self._due.key(self._due.first()) if len(self._due) > 0 else INFINITY

    def due(self, now: float) -> list[Job]:
        """The jobs that are due, the first first."""
        jobs: list[Job] = []
        while self.next_s() <= now:
            jobs.append(self._jobs[int(self._due.pop())])
        return jobs

    def put_off(self, job: Job, until_s: float) -> None:
        """No room was found for the job: it is due again then."""
        self._due.put(job.number, until_s, 0.0)

    def room_for(self, job: Job, total: i64, now: float) -> bool:
        """Whether the job's probe and those that go on hold no more than their share, or no other goes on."""
        held: i64 = job.gpus
        for other, until_s in self._probing.values():
            if until_s > now:
                held += other.gpus
        return held == job.gpus or float(held) <= self._limits.probe_share * float(total)

    def protect(self, job: Job, until_s: float) -> None:
        """The job probes until then."""
        self._probing[int(job.index)] = (job, until_s)

    def end_all(self) -> list[Job]:
        """All turns are over; returns whose."""
        jobs = [job for job, _ in self._probing.values()]
        self._probing.clear()
        return jobs

    def protected_until_s(self, job: Job) -> float:
        """Until when the job keeps its GPUs; the past if it does not probe."""
        probing = self._probing.get(int(job.index))
        return probing[1] if probing is not None else -INFINITY


picklable(Probes, Limits())
