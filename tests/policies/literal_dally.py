"""The paper's Dally once more, slowly and straight from its rules, with lists and loops.

It shares no decision with `dally-paper`: not the queue, not the timers, not the order, not best fit. What it is
handed by the engine it copies into lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, nextafter, sqrt

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Topology
from dally.model import Action, Allocation, Job, Preempt, Start, make_allocation
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.events import PolicyEvent
from dally.policies.queue import Queue

Parts = list[tuple[int, int]]  # (machine, GPUs)


class LiteralDally(Policy):
    """Sections of the rules: delay scheduling, auto-tuner, network-sensitive preemption."""

    def __init__(self, lease_s: float, floors: tuple[float, ...], tuner: bool, history: float = 24.0) -> None:
        self.lease = self.lease_s = lease_s
        self.floors = floors
        self.tuner = tuner
        self.history = history
        self.waiting: list[Job] = []
        self.ended: list[Job] = []  # jobs whose leases ended now
        self.samples: list[tuple[int, int, float, float]] = []  # tier, GPUs, when, wait in leases

    # What the engine tells.

    def on(self, event: PolicyEvent) -> None:
        job, now = event.job, event.now
        if job is None:
            return
        if event.kind == events.QUEUED:
            self.waiting.append(job)
        elif event.kind in (events.WITHDRAWN, events.STARTED):
            self.waiting = [other for other in self.waiting if other is not job]
            wait_s = now - job.lost_s
            if event.kind == events.STARTED and wait_s >= self.lease:
                self.samples.append((int(job.tier), int(job.gpus), now, wait_s / self.lease))
        elif event.kind == events.STOPPED:
            self.ended = [other for other in self.ended if other is not job]
        elif event.kind == events.LEASE_ENDED:
            self.ended.append(job)

    # Timers.

    def floor(self, tier: int) -> float:
        if tier <= len(self.floors):
            return self.floors[tier - 1]
        return self.floors[-1] * 2.0 ** (tier - len(self.floors))

    def timer_s(self, tier: int, last: int, gpus: int, now: float) -> float:
        """T_k(g)."""
        if not self.tuner:
            return self.lease * self.floor(tier) if self.floor(tier) > 0 else 0.0
        waits = [
            wait
            for at_tier, of_gpus, when, wait in self.samples
            if (at_tier, of_gpus) == (tier - 1, gpus) and not now > when + self.history * self.lease
        ]
        stat = 1.0
        if waits:
            mean = sum(waits) / len(waits)
            stat = mean + 2.0 * sqrt(sum((wait - mean) ** 2 for wait in waits) / len(waits))
        share = 0.8 if last == 1 else 0.8 + 0.2 * (tier - 1) / (last - 1)
        cap = ceil(share * self.history - 1e-9)
        return self.lease * min(cap, max(self.floor(tier), ceil(stat)))

    def patience_s(self, job: Job, tier: int, topology: Topology, now: float) -> float:
        """How long the job must have waited to take that tier, and with it any closer one."""
        if tier <= home(topology, job):
            return 0.0
        last = len(topology.gpus) - 1
        return min(self.timer_s(farther, last, int(job.gpus), now) for farther in range(tier, last + 1))

    # The pass.

    def rank(self, job: Job, now: float) -> tuple[float, int, float, int]:
        """Score, GPUs held, t_last, number: lowest first. At its lease's end a gang's t_last is now."""
        ran_s = job.run_s(now)
        score = round(job.computed_s(now) / ran_s, 9) if ran_s > 0 else 0.0
        if job in self.ended:
            return (score, int(job.gpus), now, int(job.index))
        return (score, 0, job.lost_s, int(job.index))

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        if self.ended:
            yield from self.deal(now, cluster)
        found = True
        while found:
            found = False
            for job in sorted(self.waiting, key=lambda job: self.rank(job, now)):
                allocation = self.accepts(job, job.lost_s, free_gpus(cluster), cluster.topology, now)
                if allocation is not None:
                    yield Start(job, allocation)
                    found = True
                    break
        self.wakeup_s = self.next_timer_s(now, cluster)

    def deal(self, now: float, cluster: Cluster) -> Iterator[Action]:
        """All gangs whose leases ended are released, and everything is offered down the list once."""
        pool = with_gangs(free_gpus(cluster), self.ended)
        dealt: list[tuple[Job, Allocation]] = []
        renewed: list[Job] = []
        for job in sorted([*self.waiting, *self.ended], key=lambda job: self.rank(job, now)):
            since_s = now if job in self.ended else job.lost_s
            allocation = self.accepts(job, since_s, pool, cluster.topology, now)
            if allocation is None:
                continue
            for machine, gpus in allocation.parts():
                pool[machine] -= gpus
            if job in self.ended and sorted(held(job)) == sorted(allocation.parts()):
                renewed.append(job)
            else:
                dealt.append((job, allocation))
        for job in sorted(self.ended, key=lambda job: int(job.index)):
            if job not in renewed:
                yield Preempt(job)
        self.ended = []
        for job, allocation in dealt:
            yield Start(job, allocation)

    def accepts(
        self, job: Job, since_s: float, free: list[int], topology: Topology, now: float
    ) -> Allocation | None:
        """What the job takes of what is free after waiting since then; None: it declines."""
        tier = closest(topology, free, job)
        if tier is None or since_s + self.patience_s(job, tier, topology, now) > now:
            return None
        return make_allocation(tier, best_fit(topology, tier, free, job))

    def next_timer_s(self, now: float, cluster: Cluster) -> float:
        """When the first of those who wait takes what is on offer, or its timers may change."""
        moments = [inf]
        topology = cluster.topology
        last = len(topology.gpus) - 1
        for job in self.waiting:
            tier = closest(topology, free_gpus(cluster), job)
            if tier is None or tier <= home(topology, job):
                continue
            moments.append(job.lost_s + self.patience_s(job, tier, topology, now))
            for at_tier, gpus, when, _ in self.samples if self.tuner else []:
                if gpus == job.gpus and tier - 1 <= at_tier < last:
                    moments.append(nextafter(when + self.history * self.lease, inf))
        return min(moment for moment in moments if moment > now)


# Free GPUs, by machine.


def held(job: Job) -> Parts:
    assert job.allocation is not None
    return [(int(machine), int(gpus)) for machine, gpus in job.allocation.parts()]


def free_gpus(cluster: Cluster) -> list[int]:
    return [int(cluster.free_on(machine)) for machine in range(cluster.topology.machine_count())]


def with_gangs(free: list[int], gangs: list[Job]) -> list[int]:
    """As if these gangs had given theirs back."""
    found = free.copy()
    for job in gangs:
        for machine, gpus in held(job):
            found[machine] += gpus
    return found


def machines(topology: Topology, tier: int, domain: int) -> range:
    first, end = topology.machines_of(tier, domain)
    return range(int(first), int(end))


def room(topology: Topology, tier: int, domain: int, free: list[int], group: int) -> int:
    """Free GPUs of a domain in whole groups, each on one machine."""
    return sum(free[machine] // group * group for machine in machines(topology, tier, domain))


def closest(topology: Topology, free: list[int], job: Job) -> int | None:
    """The closest tier of which one domain has room for the gang."""
    for tier, domains in enumerate(topology.gpus):
        for domain in range(len(domains)):
            if room(topology, tier, domain, free, int(job.group)) >= job.gpus:
                return tier
    return None


def home(topology: Topology, job: Job) -> int:
    """tier*(g): the closest tier of which one domain holds the gang when it is empty."""
    found = closest(topology, [int(gpus) for gpus in topology.gpus[0]], job)
    return len(topology.gpus) - 1 if found is None else found


def best_fit(topology: Topology, tier: int, free: list[int], job: Job) -> Parts:
    """The domain with the fewest free GPUs that has room, filled with as few children as possible."""
    fitting = [
        (sum(free[machine] for machine in machines(topology, tier, domain)), domain)
        for domain in range(len(topology.gpus[tier]))
        if room(topology, tier, domain, free, int(job.group)) >= job.gpus
    ]
    return fill(topology, tier, min(fitting)[1], int(job.gpus), free, int(job.group))


def fill(topology: Topology, tier: int, domain: int, gpus: int, free: list[int], group: int) -> Parts:
    """Whole children first, the emptiest; the remainder in the child it fits best."""
    if tier == 0:
        return [(domain, gpus)]
    first = int(topology.first_children[tier][domain])
    children = range(first, first + int(topology.child_counts[tier][domain]))
    left = sorted((-room(topology, tier - 1, child, free, group), child) for child in children)
    parts: Parts = []
    while -left[0][0] < gpus:
        most, child = left.pop(0)
        parts += fill(topology, tier - 1, child, -most, free, group)
        gpus += most
    _, child = min((-less, child) for less, child in left if -less >= gpus)
    return parts + fill(topology, tier - 1, child, gpus, free, group)
