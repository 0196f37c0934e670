"""Delay placement: take the closest tier on offer if nothing closer is possible, or if one waited long enough."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit
from dally.policies.placement.groups import usable
from dally.policies.tuning import Timers


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayPlacement(Placement):
    """Delay scheduling over machine → rack → network; all timers run from when the job last began to wait."""

    def __init__(self, timers: Timers) -> None:
        self.timers: Timers = timers

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        tier = self.offered(cluster, job.gpus, job.group)
        if tier < 0 or job.lost_s + self.patience_s(cluster, tier, job.gpus, job.group, now) > now:
            return None
        return best_fit(cluster, tier, job.gpus, job.group)

    def offered(self, cluster: Cluster, gpus: i64, group: i64) -> i64:
        """The closest tier with room for such a gang right now, or -1."""
        if cluster.free_gpus < gpus:
            return -1
        for tier in range(cluster.root + 1):
            if group > 1 and tier > 0:
                for domain in range(len(cluster.free[tier])):
                    if cluster.free[tier][domain] >= gpus and usable(cluster, tier, domain, group) >= gpus:
                        return tier
            elif cluster.best_domain(tier, gpus) >= 0:
                return tier
        return -1

    def patience_s(self, cluster: Cluster, tier: i64, gpus: i64, group: i64, now: float) -> float:
        """How long such a gang must have waited to take that tier; 0 if it can get no closer."""
        if tier <= cluster.topology.closest_tier(gpus, group):
            return 0.0
        return self.timers.wait_s(tier, cluster.root, gpus, now)
