"""Compaction: a domain made free for a gang by moving others out of it, at no loss of speed."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.dally.context import Context
from dally.policies.dally.limits import Limits
from dally.policies.dally.movable import Move
from dally.policies.dally.pricing import Prices
from dally.policies.placement.best_fit import best_fit
from dally.policies.victims import makes_room


class Clearing:
    """A domain, the moves that clear it, and what these cost in GPU-seconds."""

    __slots__ = ("cost_gpu_s", "domain", "moves")

    def __init__(self, domain: i64, moves: list[Move], cost_gpu_s: float) -> None:
        self.domain: i64 = domain
        self.moves: list[Move] = moves
        self.cost_gpu_s: float = cost_gpu_s


def cheapest_clearing(job: Job, tier: i64, now: float, cluster: Cluster, context: Context) -> Clearing | None:
    """How a domain of that tier is cleared for the job at least cost; None if there is no way."""
    if tier >= cluster.root or cluster.free_gpus < job.gpus:
        return None
    cheapest: Clearing | None = None
    for domain in _roomiest(job.gpus, tier, cluster, context.limits):
        if context.reserved.overlaps(tier, domain, cluster):
            continue
        inside = context.movable.inside(tier, domain, now, cluster, context.prices)
        leaving = fewest(inside, cluster.free[tier][domain], job.gpus)
        cost_gpu_s = cost_of(leaving, now, context.prices)
        if not leaving or (cheapest is not None and cost_gpu_s >= cheapest.cost_gpu_s):
            continue
        moves = moved_out(leaving, tier, domain, now, cluster, context)
        cluster.focus(job)
        if moves and makes_room(job, tier, domain, leaving, cluster):
            cheapest = Clearing(domain, moves, cost_gpu_s)
    return cheapest


def cost_of(leaving: list[Job], now: float, prices: Prices) -> float:
    """GPU-seconds that stopping all of these costs."""
    cost_gpu_s = 0.0
    for other in leaving:
        cost_gpu_s += prices.stop_s(other, now) * float(other.gpus)
    return cost_gpu_s


def _roomiest(gpus: i64, tier: i64, cluster: Cluster, limits: Limits) -> list[int]:
    """The emptiest domains that have room for a good part of the gang, but not for all."""
    buckets = cluster.tier_buckets[tier]
    least = limits.clear_free * float(gpus)
    domains: list[int] = []
    domain = buckets.emptiest()
    while domain >= 0 and len(domains) < limits.clear_domains:
        free = buckets.free[domain]
        if float(free) < least or free == 0:
            break
        if free < gpus:
            domains.append(int(domain))
        domain = buckets.next_emptiest(domain)
    return domains


def fewest(inside: list[Job], free: i64, gpus: i64) -> list[Job]:
    """The first jobs whose leaving makes room, less those not needed; [] if all of them are not enough."""
    chosen: list[Job] = []
    for other in inside:
        if free >= gpus:
            break
        chosen.append(other)
        free += other.gpus
    if free < gpus:
        return []
    needed: list[Job] = []
    for other in chosen:  # the first may have been in vain
        if free - other.gpus >= gpus:
            free -= other.gpus
        else:
            needed.append(other)
    return needed


def moved_out(
    leaving: list[Job], tier: i64, domain: i64, now: float, cluster: Cluster, context: Context
) -> list[Move]:
    """A place outside for each, no farther apart and on no more machines than now; [] if one finds none."""
    rows = [(-int(other.gpus), int(other.index)) for other in leaving]
    rows.sort()
    by_index = {int(other.index): other for other in leaving}
    moves: list[Move] = []
    trial = context.reserved.trial(cluster)
    trial.block(tier, domain)
    for row in rows:
        other = by_index[row[1]]
        cluster.focus(other)
        allocation = _elsewhere(other, cluster)
        if allocation is None:
            moves = []
            break
        trial.take(allocation, other)
        moves.append(Move(other, allocation, context.prices.stop_s(other, now), 0.0))
    trial.undo()
    return moves


def _elsewhere(job: Job, cluster: Cluster) -> Allocation | None:
    held = job.allocation
    assert held is not None
    for tier in range(job.tier + 1):
        allocation = best_fit(cluster, tier, job.gpus, job.group)
        if allocation is not None:
            return allocation if len(allocation.machines) <= len(held.machines) else None
    return None
