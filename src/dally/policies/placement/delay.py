"""Delay placement: take the closest tier on offer if nothing closer is possible, or if one waited long enough."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit
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

    def patience_s(self, cluster: Cluster, tier: i64, gpus: i64, group: i64, now: float) -> float:
        """How long such a gang must have waited to take that tier; 0 if it can get no closer."""
        if tier <= cluster.topology.closest_tier(gpus, group):
            return 0.0
        return self.timers.wait_s(tier, cluster.root, gpus, now)

    def holds_out_s(self, job: Job, tier: i64, now: float, cluster: Cluster) -> float:
        return self.patience_s(cluster, tier, job.gpus, job.group, now)
