"""Lent GPUs taken back: whose jobs must stop so that one within its share can start."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Job
from dally.policies.gate.fair_shares import FairShares
from dally.policies.gate.tenants import Tenant

EPSILON: Final = 1e-9


class Claim:
    """Who has to stop for a job; or when that can be said again, if some have not run long enough."""

    def __init__(self, losers: list[Job], ripe_s: float = INFINITY) -> None:
        self.losers: list[Job] = losers
        self.ripe_s: float = ripe_s


class Held:
    """What a job that may be stopped holds of a domain."""

    def __init__(self, job: Job, gpus: i64, tenant: Tenant) -> None:
        self.job: Job = job
        self.gpus: i64 = gpus
        self.tenant: Tenant = tenant


def claim(
    job: Job, kind: int, shares: FairShares, owners: list[Tenant], cluster: Cluster, spared: set[int], now: float
) -> Claim | None:
    """Room for the job in a domain of its closest tier, at the least loss; None if nobody holds more than its due.

    Tenants lose while they hold more than they are due; who has run for less than its `min_runtime` is left alone,
    and so are those spared and those that stay. Where the closest tier cannot be cleared so, the next is looked at.
    `owners`: tenants by `job.tenant`.
    """
    near = cluster.topology.closest_tier(job.gpus, job.group)
    if near < 0:
        return None
    others = _others(job, kind, shares, owners, cluster, spared)
    for tier in range(near, cluster.root + 1):
        if job.group == 1 and cluster.best_domain(tier, job.gpus) >= 0:
            return Claim([])
        result: list[Job] = []
        least = INFINITY
        ripe_s = INFINITY
        rooms = _by_domain(others, tier, cluster)
        for domain in sorted(rooms):
            inside = rooms[domain]
            room = cluster.free[tier][domain]
            for row in inside:
                room += row.gpus
            if room < job.gpus:
                continue
            losers, soon_s = _losers(job, cluster.free[tier][domain], inside, kind, shares, now)
            loss = 0.0
            for loser in losers:
                loss += float(loser.gpus) * (now - loser.placed_s)
            if losers and loss < least:
                result, least = losers, loss
            ripe_s = min(ripe_s, soon_s)
        if result or ripe_s < INFINITY:
            return Claim(result) if result else Claim(result, ripe_s)
    return None


def _others(
    job: Job, kind: int, shares: FairShares, owners: list[Tenant], cluster: Cluster, spared: set[int]
) -> list[Held]:
    """Jobs of those that hold more than their due, the latest placed first."""
    own = owners[job.tenant]
    rows: list[tuple[float, int, Job]] = []
    for other in cluster.running.values():
        tenant = owners[other.tenant]
        if (
            tenant is own
            or other.non_preemptible
            or float(tenant.held[kind]) - shares.due[tenant.number] <= EPSILON
        ):
            continue
        if int(other.index) not in spared:
            rows.append((-other.placed_s, -int(other.index), other))
    rows.sort(key=_latest)
    return [Held(row[2], row[2].gpus, owners[row[2].tenant]) for row in rows]


def _latest(row: tuple[float, int, Job]) -> tuple[float, int]:
    return row[0], row[1]


def _by_domain(others: list[Held], tier: i64, cluster: Cluster) -> dict[int, list[Held]]:
    """By domain of that tier, what they hold there, in the same order."""
    result: dict[int, list[Held]] = {}
    for row in others:
        allocation = row.job.allocation
        assert allocation is not None
        for part in range(len(allocation.machines)):
            inside = result.setdefault(int(cluster.topology.domain_of(tier, allocation.machines[part])), [])
            if inside and inside[-1].job is row.job:
                inside[-1].gpus += allocation.gpus[part]
            else:
                inside.append(Held(row.job, allocation.gpus[part], row.tenant))
    return result


def _losers(
    job: Job, free: i64, inside: list[Held], kind: int, shares: FairShares, now: float
) -> tuple[list[Job], float]:
    """Who of these has to go for the job; if they are not enough yet, when they will be."""
    over: dict[int, float] = {}  # by tenant, what it holds above its due
    ripe: list[Held] = []
    unripe: list[tuple[float, int]] = []  # when, and how many GPUs
    for row in inside:
        tenant = row.tenant
        if over.setdefault(tenant.number, float(tenant.held[kind]) - shares.due[tenant.number]) <= EPSILON:
            continue
        at_s = row.job.placed_s + tenant.min_runtime_s
        if at_s > now:
            unripe.append((at_s, int(row.gpus)))
        elif free < job.gpus:
            ripe.append(row)
            free += row.gpus
            over[tenant.number] -= float(row.job.gpus)
    if free >= job.gpus:
        return _needed(ripe, free, job.gpus), INFINITY
    for at_s, gpus in sorted(unripe):
        free += gpus
        if free >= job.gpus:
            return [], at_s
    return [], INFINITY


def _needed(losers: list[Held], free: i64, gpus: i64) -> list[Job]:
    """Without those whose GPUs turn out not to be needed."""
    result: list[Job] = []
    for row in losers:
        if free - row.gpus >= gpus:
            free -= row.gpus
        else:
            result.append(row.job)
    return result
