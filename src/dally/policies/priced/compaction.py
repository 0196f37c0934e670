"""Compaction: a domain made free for a gang by moving others out of it, without anybody losing speed."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Job
from dally.policies.placement.best_fit import best_fit
from dally.policies.priced.prices import Prices

DOMAINS_TRIED = 8
LEAST_FREE = 4  # a quarter of the gang must fit already


class Move:
    """A running job, and where it would go."""

    __slots__ = ("allocation", "job")

    def __init__(self, job: Job, allocation: Allocation) -> None:
        self.job: Job = job
        self.allocation: Allocation = allocation


class Clearing:
    """A domain, who has to leave it, and what that costs in GPU-seconds."""

    __slots__ = ("cost_gpu_s", "domain", "moves")

    def __init__(self, domain: i64, moves: list[Move], cost_gpu_s: float) -> None:
        self.domain: i64 = domain
        self.moves: list[Move] = moves
        self.cost_gpu_s: float = cost_gpu_s


def cheapest_clearing(job: Job, tier: i64, now: float, cluster: Cluster, prices: Prices) -> Clearing | None:
    """How a domain of that tier is cleared for the job at least cost; None if there is no way."""
    if tier >= cluster.root or cluster.free_gpus < job.gpus:
        return None
    found: Clearing | None = None
    for domain in _roomiest(job.gpus, tier, cluster):
        leaving = _leaving(job.gpus, tier, domain, now, cluster)
        cost_gpu_s = 0.0
        for other in leaving:
            cost_gpu_s += prices.stop_s(other) * float(other.gpus)
        if not leaving or (found is not None and cost_gpu_s >= found.cost_gpu_s):
            continue
        moves = _moves(leaving, tier, domain, cluster)
        if moves:
            found = Clearing(domain, moves, cost_gpu_s)
    return found


def _roomiest(gpus: i64, tier: i64, cluster: Cluster) -> list[int]:
    """The emptiest domains that have room for a good part of the gang, but not for all."""
    buckets = cluster.tier_buckets[tier]
    found: list[int] = []
    domain = buckets.emptiest()
    while domain >= 0 and len(found) < DOMAINS_TRIED:
        free = buckets.free[domain]
        if free * LEAST_FREE < gpus or free == 0:
            break
        if free < gpus:
            found.append(int(domain))
        domain = buckets.next_emptiest(domain)
    return found


def _leaving(gpus: i64, tier: i64, domain: i64, now: float, cluster: Cluster) -> list[Job]:
    """Who has to go, the smallest first until there is room, less those not needed; [] if that is not enough."""
    free = cluster.free[tier][domain]
    chosen: list[Job] = []
    for other in _inside(tier, domain, now, cluster):
        if free >= gpus:
            break
        chosen.append(other)
        free += other.gpus
    if free < gpus:
        return []
    needed: list[Job] = []
    for other in chosen:  # the smallest may have been in vain
        if free - other.gpus >= gpus:
            free -= other.gpus
        else:
            needed.append(other)
    return needed


def _inside(tier: i64, domain: i64, now: float, cluster: Cluster) -> list[Job]:
    """Gangs at work that lie wholly inside the domain, smallest first."""
    first, last = cluster.topology.machines_of(tier, domain)
    seen: dict[int, Job] = {}
    for machine in range(first, last):
        for other in cluster.jobs_on[machine]:
            at_work = other.group == 1 and other.since_s <= now and other.placed_s < now
            if at_work and int(other.index) not in seen and _within(other, first, last):
                seen[int(other.index)] = other
    rows = [(int(other.gpus), int(other.index)) for other in seen.values()]
    rows.sort()
    return [seen[row[1]] for row in rows]


def _within(job: Job, first: i64, last: i64) -> bool:
    allocation = job.allocation
    if allocation is None:
        return False
    return all(first <= machine < last for machine in allocation.machines)


def _moves(leaving: list[Job], tier: i64, domain: i64, cluster: Cluster) -> list[Move]:
    """A place outside for each, no farther apart and on no more machines than now; [] if somebody finds none."""
    rows = [(-int(other.gpus), int(other.index)) for other in leaving]
    rows.sort()
    by_index = {int(other.index): other for other in leaving}
    found: list[Move] = []
    trial = cluster.trial()
    trial.block(tier, domain)
    for row in rows:
        other = by_index[row[1]]
        allocation = _elsewhere(other, cluster)
        if allocation is None:
            found = []
            break
        trial.take(allocation)
        found.append(Move(other, allocation))
    trial.undo()
    return found


def _elsewhere(job: Job, cluster: Cluster) -> Allocation | None:
    held = job.allocation
    assert held is not None
    for tier in range(job.tier + 1):
        allocation = best_fit(cluster, tier, job.gpus)
        if allocation is not None:
            return allocation if len(allocation.machines) <= len(held.machines) else None
    return None


def worth(clearing: Clearing, job: Job, left_s: float) -> bool:
    """Whether the gang gets at least twice out of it what it costs the others."""
    return 2.0 * clearing.cost_gpu_s <= float(job.gpus) * left_s < INFINITY
