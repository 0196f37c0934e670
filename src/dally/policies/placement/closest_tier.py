"""Gangs held at their closest tier, whatever placement a policy has: `--set tier=closest`."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.errors import InputError
from dally.model import Allocation, Job
from dally.policies.base import Param
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit
from dally.policies.view import View

ANY: Final = "any"
CLOSEST: Final = "closest"
TIER: Final = Param(
    "tier", ANY, "any: gangs take any tier that their placement chooses; closest: only their closest tier"
)


@mypyc_attr(allow_interpreted_subclasses=True)
class ClosestTier(Placement):
    """Places a gang only at the closest tier that could hold it; the gang waits for one domain of that tier.

    Within the domain, the wrapped placement chooses the machines. If its choice would go farther, best fit decides.
    """

    def __init__(self, inner: Placement) -> None:
        self._inner: Placement = inner

    def begin(self, view: View) -> None:
        super().begin(view)
        self._inner.begin(view)

    def kind(self, job: Job) -> int:
        return self._inner.kind(job)

    def widest(self, job: Job, cluster: Cluster) -> i64:
        return cluster.closest_tier(job)

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        widest = self.widest(job, cluster)
        tier = self.offered(cluster, job.gpus, job.group)
        if tier < 0 or tier > widest:
            return None
        allocation = self._inner.place(job, now, cluster)
        if allocation is None or cluster.topology.tier_of(allocation) <= widest:
            return allocation
        return best_fit(cluster, tier, job.gpus, job.group)


def holds_closest(tier: str) -> bool:
    """Whether that value of the parameter holds gangs at their closest tier; InputError if it is none."""
    if tier not in (ANY, CLOSEST):
        raise InputError(f"--set tier={tier}: must be any or closest")
    return tier == CLOSEST


def at_tier(inner: Placement, tier: str) -> Placement:
    """The placement as it is, or held at the closest tier."""
    return ClosestTier(inner) if holds_closest(tier) else inner
