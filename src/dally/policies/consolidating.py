"""Preemption for placements that insist on a tier: free GPUs in the right domain, not just enough of them."""

from __future__ import annotations

from collections.abc import Iterable

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Topology
from dally.model import Action, Allocation, Job
from dally.policies.composed import ComposedPolicy
from dally.policies.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsolidatingPolicy(ComposedPolicy):
    """Offers free GPUs in order; for a job that finds none, it empties a domain of worse-ranked jobs.

    It preempts a job only if the waiting gang can then be placed and needs those GPUs.
    """

    def _offer(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        return self._offer_each(now, queue, cluster)

    def _losers(self, job: Job, key: float, now: float, cluster: Cluster) -> list[Job]:
        """Whom to preempt for the job; nobody if that would not help, or if its GPUs come in groups."""
        if cluster.feasibility is not None:
            return super()._losers(job, key, now, cluster)
        if job.group > 1:
            return []  # enough GPUs need not mean a place
        tier = self.placement.widest(job, cluster)
        gained: vec[i64] = vec[i64]([0] * len(cluster.free[tier]))  # GPUs that domains would gain
        weighed: list[Job] = []
        domain: i64 = -1
        while domain < 0:
            worst = self._worst(now)
            if worst is None or self.order.key(worst, now) <= key:
                break
            self.preemption.set_aside(worst)
            weighed.append(worst)
            domain = emptied(worst, cluster, tier, gained, job.gpus)
        losers = needed(weighed, cluster, tier, domain, job.gpus) if domain >= 0 else []
        for other in reversed(weighed):
            self.preemption.keep(other, self.order, now)
        return losers


def emptied(job: Job, cluster: Cluster, tier: i64, gained: vec[i64], gpus: i64) -> i64:
    """Add what domains gain if the job goes; the first of them that then has that many GPUs free, or -1."""
    allocation = job.allocation
    assert allocation is not None
    free = cluster.free[tier]
    for part in range(len(allocation.machines)):
        domain = cluster.topology.domain_of(tier, allocation.machines[part])
        gained[domain] += allocation.gpus[part]
        if free[domain] + gained[domain] >= gpus:
            return domain
    return -1


def needed(candidates: list[Job], cluster: Cluster, tier: i64, domain: i64, gpus: i64) -> list[Job]:
    """Of these, worst first, as many as it takes to have that many GPUs free in the domain; the best are spared."""
    holders: list[Job] = []
    shares: vec[i64] = vec[i64]()
    room = cluster.free[tier][domain]
    for job in candidates:
        share = held(cluster.topology, job, tier, domain)
        if share > 0:
            holders.append(job)
            shares = append(shares, share)
            room += share
    losers: list[Job] = []
    for place in range(len(holders) - 1, -1, -1):
        if room - shares[place] >= gpus:
            room -= shares[place]
        else:
            losers.append(holders[place])
    return losers


def held(topology: Topology, job: Job, tier: i64, domain: i64) -> i64:
    """The running job's GPUs in that domain of the tier."""
    allocation = job.allocation
    assert allocation is not None
    return gpus_in(topology, allocation, tier, domain)


def gpus_in(topology: Topology, allocation: Allocation, tier: i64, domain: i64) -> i64:
    """How many of these GPUs are in that domain of the tier."""
    gpus: i64 = 0
    for part in range(len(allocation.machines)):
        if topology.domain_of(tier, allocation.machines[part]) == domain:
            gpus += allocation.gpus[part]
    return gpus
