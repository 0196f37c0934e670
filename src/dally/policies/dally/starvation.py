"""The starvation bound: which jobs have waited longer than it allows, and which it protects."""

from __future__ import annotations

from mypy_extensions import i64

from dally.heap import IndexedHeap
from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.dally.limits import Limits


class StarvationBound:
    """Waiting jobs by when their patience ends: in all they wait `patience_s`, and `patience` × what they have run.

    A job whose patience has ended is served first, whatever its rank, the one whose patience ended first first;
    it then keeps its GPUs for `stretch_s`. Jobs so protected hold a share of the cluster at most, or are one.
    So a job waits no longer in all than patience_s + patience × its running time + the stretches of those whose
    patience ended before. A prioritized job has none left.
    """

    __slots__ = ("_ends", "_jobs", "_limits", "_longest_s", "_protected")

    def __init__(self, limits: Limits, protected: dict[int, tuple[int, float]] | None = None) -> None:
        """`protected`: whoever is, of all tenants (policies/gate): by index GPUs, and until when."""
        self._limits: Limits = limits
        self._longest_s: float = INFINITY  # how long jobs take, if all take about equally long
        self._jobs: dict[int, Job] = {}
        self._ends: IndexedHeap = IndexedHeap()
        self._protected: dict[int, tuple[int, float]] = protected if protected is not None else {}

    def waits(self, job: Job) -> None:
        """The job begins to wait, or waits again."""
        self._jobs[int(job.number)] = job
        self._protected.pop(int(job.index), None)
        self._put(job)

    def take_to_last(self, longest_s: float) -> None:
        """All jobs take about so long, at most; infinity: they differ."""
        if longest_s != self._longest_s:
            self._longest_s = longest_s
            for job in self._jobs.values():
                self._put(job)

    def _put(self, job: Job) -> None:
        """Note when the patience of a waiting job ends."""
        end_s = self._last_s(job)
        if self._longest_s < INFINITY:
            end_s = min(end_s, job.submit_s + self._limits.alike_patience * self._longest_s + job.held_s)
        if job.prioritized:
            self._ends.put(job.number, -INFINITY, end_s)
        else:
            self._ends.put(job.number, end_s, 0.0)

    def _last_s(self, job: Job) -> float:
        """When its patience ends, whatever other jobs are like."""
        return job.submit_s + self._limits.patience_s + (1.0 + self._limits.patience) * job.held_s

    def is_early(self, job: Job, now: float) -> bool:
        """Whether the patience of that job has ended only because all jobs take about equally long."""
        return not job.prioritized and now < self._last_s(job)

    def leaves(self, job: Job) -> None:
        """The job waits no more."""
        self._jobs.pop(int(job.number), None)
        self._ends.discard(job.number)

    def forget(self, job: Job) -> None:
        """The job is gone."""
        self._protected.pop(int(job.index), None)

    def next_s(self) -> float:
        """When the next job's patience ends; in the past if it has."""
        return self._ends.key(self._ends.first()) if len(self._ends) > 0 else INFINITY

    def first(self, now: float) -> Job | None:
        """The job whose patience ended first, if one's has."""
        return self._jobs[int(self._ends.first())] if self.next_s() <= now else None

    def room_for(self, job: Job, total: i64, now: float) -> bool:
        """Whether the job may be served now: those protected leave it its share, or there is none."""
        held: i64 = 0
        for gpus, until_s in self._protected.values():
            if until_s > now:
                held += gpus
        share = self._limits.reserved
        if self._longest_s < INFINITY:
            share = max(share, self._limits.alike_reserved)
        return held == 0 or float(held + job.gpus) <= share * float(total)

    def protect(self, job: Job, until_s: float) -> None:
        """The job was served and keeps its GPUs until then."""
        self._protected[int(job.index)] = (int(job.gpus), until_s)

    def protected_until_s(self, job: Job) -> float:
        """Until when nobody takes the job's GPUs; the past if nothing protects it."""
        protected = self._protected.get(int(job.index))
        return protected[1] if protected is not None else -INFINITY


picklable(StarvationBound, Limits())
