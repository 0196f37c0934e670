"""Best fit: the closest tier that has room, and in it the domain that is left fullest."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.groups import best_fit_groups


@mypyc_attr(allow_interpreted_subclasses=True)
class BestFit(Placement):
    """Takes the closest tier on offer, however far that is."""

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        return _closest(cluster, job)


def best_fit(cluster: Cluster, tier: i64, gpus: i64, group: i64 = 1) -> Allocation | None:
    """The best fit within one domain of that tier, or None when no domain has room.

    GPUs come in groups of `group` that share a machine.
    """
    if group > 1 and tier > 0 and not cluster.in_groups:
        return best_fit_groups(cluster, tier, gpus, group)
    domain = cluster.best_domain(tier, gpus)
    if domain < 0:
        return None
    return fit_into(cluster, tier, domain, gpus)


def closest_place(job: Job, empty: Cluster) -> Allocation | None:
    """The best fit for the job on an empty cluster that is used for nothing else, reservations aside."""
    empty.show_most(job)
    return _closest(empty, job)


def _closest(cluster: Cluster, job: Job) -> Allocation | None:
    for tier in range(cluster.root + 1):
        allocation = best_fit(cluster, tier, job.gpus, job.group)
        if allocation is not None:
            return allocation
    return None


def fit_into(cluster: Cluster, tier: i64, domain: i64, gpus: i64) -> Allocation:
    """That many of the domain's free GPUs, which it must have, on as few children as possible."""
    allocation = Allocation(tier)
    fill(cluster, tier, domain, gpus, allocation)
    return allocation


def fill(cluster: Cluster, tier: i64, domain: i64, gpus: i64, allocation: Allocation) -> None:
    """Add that many of the domain's free GPUs, out of as few children as possible.

    Whole children first, those with the most free GPUs; the remainder from the child it fits best.
    """
    if tier == 0:
        allocation.add(domain, gpus)
        return
    children = cluster.children[tier][domain]
    first = cluster.topology.first_children[tier][domain]
    child = children.emptiest()
    while children.free[child] < gpus:
        gpus -= children.free[child]
        fill(cluster, tier - 1, first + child, children.free[child], allocation)
        child = children.next_emptiest(child)
    # Children as empty as `child` may be used up above; fuller ones cannot be.
    snug = children.best_fit(gpus)
    if children.free[snug] < children.free[child]:
        child = snug
    fill(cluster, tier - 1, first + child, gpus, allocation)
