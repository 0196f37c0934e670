"""Themis's bids: what a gang would take depends on the tier, as its rate does."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit

GROWTH = 4.0  # of durations from one kind of job to the next
KINDS = 4


@mypyc_attr(allow_interpreted_subclasses=True)
class TierBids(Placement):
    """The best fit of the closest tier on offer, unless the gang gains by waiting for its closest tier.

    Mahajan et al., Themis, NSDI 2020: an app bids for each allocation the finish-time fairness that it would
    reach with it. A gang bids for GPUs farther than its closest tier only if it would finish sooner there, at
    the rate beside today's traffic, than after one more lease at its closest tier. No job is preempted for GPUs
    farther than that. Our model of the network replaces the paper's table of slowdowns by machine, rack and
    network.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s: float = lease_s

    def kind(self, job: Job) -> int:
        """The longer a gang runs the sooner it declines: gangs are told apart by how many leases they take."""
        kind = 0
        limit_s = self._lease_s
        while kind < KINDS - 1 and job.duration_s > limit_s:
            kind += 1
            limit_s *= GROWTH
        return kind

    def widest(self, job: Job, cluster: Cluster) -> i64:
        return cluster.closest_tier(job)

    def delay_s(self, job: Job, tier: i64, now: float, cluster: Cluster) -> float:
        if tier <= self.widest(job, cluster):
            return 0.0
        cluster.focus(job)
        allocation = best_fit(cluster, tier, job.gpus, job.group)
        return 0.0 if allocation is None or self._bids(job, allocation, now) else INFINITY

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        tier = self.offered(cluster, job.gpus, job.group)
        if tier < 0:
            return None
        allocation = best_fit(cluster, tier, job.gpus, job.group)
        if allocation is None or tier <= self.widest(job, cluster) or self._bids(job, allocation, now):
            return allocation
        return None

    def _bids(self, job: Job, allocation: Allocation, now: float) -> bool:
        slowdown = self.view.slowdown(job, allocation)[0]
        return job.remaining_s(now) * (slowdown - self.view.best(job)) <= self._lease_s
