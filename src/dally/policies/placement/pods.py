"""Kueue's topology-aware placement."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit


@mypyc_attr(allow_interpreted_subclasses=True)
class PodPlacement(Placement):
    """Within one domain of the requested tier; if that is only preferred, in the closest tier above with room.

    Kueue's topology-aware scheduling (KEP 2724): required and preferred topology, fewest domains, best fit. A
    gang that fits a machine is one pod, which cannot be split. A gang too large for the requested tier requests
    the closest tier that holds it; Kueue would never admit it. Traces do not record which level users request,
    nor the quotas of their queues, so both are left out.
    """

    def __init__(self, tier: i64, required: bool) -> None:
        self._tier: i64 = tier
        self._required: bool = required

    def widest(self, job: Job, cluster: Cluster) -> i64:
        closest = cluster.closest_tier(job)
        if closest == 0:
            return 0
        if not self._required:
            return cluster.root
        return closest if closest > self._tier else min(self._tier, cluster.root)

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        widest = self.widest(job, cluster)
        tier = min(self._tier, widest)
        while tier <= widest:
            allocation = best_fit(cluster, tier, job.gpus, job.group)
            if allocation is not None:
                return allocation
            tier += 1
        return None
