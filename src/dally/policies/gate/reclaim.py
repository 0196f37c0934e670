"""Lent GPUs taken back: whose jobs must stop so that one within its share can start."""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Job
from dally.policies.gate.fair_shares import FairShares
from dally.policies.gate.tenants import Tenant
from dally.policies.victims import makes_room

EPSILON: Final = 1e-9


class Claim:
    """Who has to stop for a job; or when that can be said again, if some have not run long enough."""

    def __init__(self, losers: list[Job], ripe_s: float = INFINITY) -> None:
        self.losers: list[Job] = losers
        self.ripe_s: float = ripe_s


class Borrowers:
    """Jobs of tenants that hold more than they are due, the latest placed first."""

    __slots__ = ("_any", "jobs", "left_over", "over", "owners")

    def __init__(self, kind: i64, shares: FairShares, owners: list[Tenant]) -> None:
        """`owners`: tenants by `job.tenant`."""
        self.jobs: list[Job] = []
        self.owners: list[Tenant] = owners
        self.over: vec[float] = vec[float]([0.0] * len(shares.due))  # by tenant, GPUs that it holds above its due,
        self.left_over: vec[float] = vec[float]([0.0] * len(shares.due))  # and once some of its jobs have stopped
        self._any: bool = False  # whether there are any
        for tenant in owners:
            over = float(tenant.held[kind]) - shares.due[tenant.number]
            self.over[tenant.number] = over
            self._any = self._any or over > EPSILON

    def find(self, job: Job, cluster: Cluster, spared: set[int], within: Tenant | None) -> None:
        """All whose GPUs the job may have, but for those spared; `within`: of tenants below that one alone."""
        if not self._any:
            return
        own = self.owners[job.tenant]
        for other in cluster.running.values():
            tenant = self.owners[other.tenant]
            if tenant is own or other.non_preemptible or self.over[tenant.number] <= EPSILON:
                continue
            if within is not None and within not in tenant.up():
                continue
            if not spared or int(other.index) not in spared:
                self.jobs.append(other)
        self.jobs.reverse()  # they ran in order of start: only those placed at one instant are out of order
        _sort(self.jobs)

    def begin(self, domains: Domains, domain: i64) -> None:
        """Nobody has lost anything yet of those that hold GPUs of the domain."""
        part = domains.first[domain]
        while part >= 0:
            tenant = self.owners[self.jobs[domains.jobs[part]].tenant].number
            self.left_over[tenant] = self.over[tenant]
            part = domains.next[part]


class Domains:
    """By domain of a tier, what borrowers hold there: a chain of parts for each, in their order."""

    __slots__ = ("first", "gpus", "jobs", "next", "room")

    def __init__(self, jobs: list[Job], tier: i64, cluster: Cluster) -> None:
        count = len(cluster.free[tier])
        self.first: vec[i64] = vec[i64]([-1] * count)  # by domain, the number of its first part; -1: there is none
        self.room: vec[i64] = vec[i64]([0] * count)  # by domain, GPUs of all of them
        self.next: vec[i64] = vec[i64]()  # by part, the next one of its domain; -1: it is the last
        self.gpus: vec[i64] = vec[i64]()
        self.jobs: vec[i64] = vec[i64]()  # by part, the place of its job among the borrowers'
        last: vec[i64] = vec[i64]([-1] * count)
        for place in range(len(jobs)):
            allocation = jobs[place].allocation
            assert allocation is not None
            for part in range(len(allocation.machines)):
                gpus = allocation.gpus[part]
                domain = cluster.topology.domain_of(tier, allocation.machines[part])
                self.room[domain] += gpus
                before = last[domain]
                if before >= 0 and self.jobs[before] == place:  # the job has another machine there
                    self.gpus[before] += gpus
                    continue
                number: i64 = len(self.next)
                self.next = append(self.next, -1)
                self.gpus = append(self.gpus, gpus)
                self.jobs = append(self.jobs, i64(place))
                if before < 0:
                    self.first[domain] = number
                else:
                    self.next[before] = number
                last[domain] = number


def claim(
    job: Job,
    kind: i64,
    shares: FairShares,
    owners: list[Tenant],
    cluster: Cluster,
    spared: set[int],
    now: float,
    within: Tenant | None,
    need_gpus: float,
) -> Claim | None:
    """Room for the job in a domain of its closest tier, at the least loss; None if nobody holds more than its due.

    Tenants lose while they hold more than they are due; who has run for less than its `min_runtime` is left alone,
    and so are those spared and those that stay. Where the closest tier cannot be cleared so, the next is looked at.
    `owners`: tenants by `job.tenant`. `within`: a tenant above, at its limit; of those below it, losers give back
    at least `need_gpus`.
    """
    near = cluster.closest_tier(job)
    if near < 0:
        return None
    cluster.focus(job)
    borrowers = Borrowers(kind, shares, owners)
    borrowers.find(job, cluster, spared, within)
    for tier in range(near, cluster.root + 1):
        if cluster.counts_suffice(job) and cluster.best_domain(tier, job.gpus) >= 0:
            return _enough([], borrowers, need_gpus, now)
        if not borrowers.jobs:
            continue
        result = _cheapest(job, borrowers, tier, cluster, now)
        if result.losers:
            return _enough(result.losers, borrowers, need_gpus, now)
        if result.ripe_s < INFINITY:
            return result
    return None


def _enough(losers: list[Job], borrowers: Borrowers, need_gpus: float, now: float) -> Claim:
    """These and more, the latest placed first, until they give back so many GPUs; else when that may be."""
    freed = 0.0
    over = [float(gpus) for gpus in borrowers.over]
    for loser in losers:
        freed += float(loser.gpus)
        over[borrowers.owners[loser.tenant].number] -= float(loser.gpus)
    result = list(losers)
    ripe_s = INFINITY
    for other in borrowers.jobs:
        if freed >= need_gpus - EPSILON:
            break
        owner = borrowers.owners[other.tenant]
        if over[owner.number] <= EPSILON or other in losers:
            continue
        if other.placed_s + owner.min_runtime_s > now:
            ripe_s = min(ripe_s, other.placed_s + owner.min_runtime_s)
            continue
        result.append(other)
        freed += float(other.gpus)
        over[owner.number] -= float(other.gpus)
    return Claim(result) if freed >= need_gpus - EPSILON else Claim([], ripe_s)


def _cheapest(job: Job, borrowers: Borrowers, tier: i64, cluster: Cluster, now: float) -> Claim:
    """Who has to stop in the domain of the tier where the least work is lost; if in none yet, when that may be."""
    domains = Domains(borrowers.jobs, tier, cluster)
    free = cluster.free[tier]
    result: list[Job] = []
    least = INFINITY
    ripe_s = INFINITY
    for domain in range(len(domains.first)):
        if domains.first[domain] < 0 or free[domain] + domains.room[domain] < job.gpus:
            continue
        chosen = _losers(job, borrowers, domains, domain, free[domain], now)
        loss = 0.0
        for loser in chosen.losers:
            loss += float(loser.gpus) * (now - loser.placed_s)
        if chosen.losers and loss < least and makes_room(job, tier, domain, chosen.losers, cluster):
            result, least = chosen.losers, loss
        ripe_s = min(ripe_s, chosen.ripe_s)
    return Claim(result) if result else Claim(result, ripe_s)


def _losers(job: Job, borrowers: Borrowers, domains: Domains, domain: i64, free: i64, now: float) -> Claim:
    """Who of the domain has to go for the job; if they are not enough yet, when they will be."""
    borrowers.begin(domains, domain)
    over = borrowers.left_over
    ripe: vec[i64] = vec[i64]()  # parts
    unripe: list[tuple[float, int]] = []  # when, and how many GPUs
    part = domains.first[domain]
    while part >= 0:
        other = borrowers.jobs[domains.jobs[part]]
        owner = borrowers.owners[other.tenant]
        tenant = owner.number
        if over[tenant] > EPSILON:
            at_s = other.placed_s + owner.min_runtime_s
            if at_s > now:
                unripe.append((at_s, int(domains.gpus[part])))
            elif free < job.gpus:
                ripe = append(ripe, part)
                free += domains.gpus[part]
                over[tenant] -= float(other.gpus)
        part = domains.next[part]
    if free >= job.gpus:
        return Claim(_needed(ripe, borrowers, domains, free, job.gpus))
    for at_s, gpus in sorted(unripe):
        free += gpus
        if free >= job.gpus:
            return Claim([], at_s)
    return Claim([])


def _needed(parts: vec[i64], borrowers: Borrowers, domains: Domains, free: i64, gpus: i64) -> list[Job]:
    """Their jobs, without those whose GPUs turn out not to be needed."""
    result: list[Job] = []
    for part in parts:
        if free - domains.gpus[part] >= gpus:
            free -= domains.gpus[part]
        else:
            result.append(borrowers.jobs[domains.jobs[part]])
    return result


def _sort(jobs: list[Job]) -> None:
    """The latest placed first, of equals the latest submitted: by insertion, as they are nearly in order."""
    for number in range(1, len(jobs)):
        job = jobs[number]
        place = number
        while place > 0 and _is_later(job, jobs[place - 1]):
            jobs[place] = jobs[place - 1]
            place -= 1
        jobs[place] = job


def _is_later(one: Job, other: Job) -> bool:
    return one.index > other.index if one.placed_s == other.placed_s else one.placed_s > other.placed_s
