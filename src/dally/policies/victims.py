"""Who must go for a job, where jobs have constraints: tried out, so that no job is preempted in vain.

GPUs of a running job help another only where that may run, and only if enough of all that it needs comes free.
"""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.cluster.trial import Trial
from dally.model import Job


class Weighing:
    """Running jobs give up their GPUs one after the other, as if, until a domain of the tier has room for a job."""

    __slots__ = ("_candidates", "_cluster", "_job", "_tier", "_trial", "domain")

    def __init__(self, job: Job, tier: i64, cluster: Cluster, trial: Trial | None = None) -> None:
        """`trial`: one that has begun, and ends with this."""
        cluster.focus(job)
        self._job: Job = job
        self._tier: i64 = tier
        self._cluster: Cluster = cluster
        self._trial: Trial = trial if trial is not None else cluster.trial()
        self._candidates: list[Job] = []
        self.domain: i64 = -1  # that has room; -1: none yet

    def add(self, other: Job) -> None:
        """This one goes too."""
        held = other.allocation
        assert held is not None
        self._trial.release(held)
        self._candidates.append(other)
        self.domain = self._cluster.best_domain(self._tier, self._job.gpus)

    def losers(self) -> list[Job]:
        """Those that must go, the first added first; nobody if there is no room. Nothing is tried any more."""
        losers: list[Job] = []
        if self.domain >= 0:
            for place in range(len(self._candidates) - 1, -1, -1):
                other = self._candidates[place]
                held = other.allocation
                assert held is not None
                self._trial.take(held)
                if self._cluster.free[self._tier][self.domain] < self._job.gpus:
                    self._trial.release(held)
                    losers.append(other)
            losers.reverse()
        self.end()
        return losers

    def end(self) -> None:
        """Nothing is tried any more."""
        self._trial.undo()


def makes_room(job: Job, tier: i64, domain: i64, losers: list[Job], cluster: Cluster) -> bool:
    """Whether the domain has room for the job once these have gone; without constraints, GPUs alone tell."""
    if cluster.feasibility is None:
        return True
    cluster.focus(job)
    trial = cluster.trial()
    for other in losers:
        held = other.allocation
        assert held is not None
        trial.release(held)
    enough = cluster.free[tier][domain] >= job.gpus
    trial.undo()
    return enough
