"""A domain kept free for a job that has waited too long: nobody else gets GPUs there."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.cluster.trial import Trial
from dally.model import Job
from dally.pickles import picklable

NOBODY: i64 = -1


class Kept:
    """Which domain is kept, if any, and for whom."""

    __slots__ = ("domain", "job", "tier")

    def __init__(self) -> None:
        self.job: i64 = NOBODY
        self.tier: i64 = 0
        self.domain: i64 = 0

    def keep(self, job: Job, tier: i64, domain: i64) -> None:
        """From now on the domain is the job's."""
        self.job = job.index
        self.tier = tier
        self.domain = domain

    def let_go(self) -> None:
        """Nothing is kept any more."""
        self.job = NOBODY

    def trial(self, cluster: Cluster) -> Trial:
        """A trial in which nothing of the kept domain is to be had."""
        found = cluster.trial()
        if self.job != NOBODY:
            found.block(self.tier, self.domain)
        return found

    def overlaps(self, tier: i64, domain: i64, cluster: Cluster) -> bool:
        """Whether a domain holds GPUs that are kept."""
        if self.job == NOBODY:
            return False
        first, last = cluster.topology.machines_of(tier, domain)
        kept_first, kept_last = cluster.topology.machines_of(self.tier, self.domain)
        return first < kept_last and kept_first < last


picklable(Kept)
