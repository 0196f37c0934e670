"""The Dally scheduler: delay scheduling, tuned timers, and leases that go to the most network-sensitive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import (
    ACCEPT,
    INFINITY,
    LOSE,
    OFFER,
    RUNNING,
    WAITS,
    Action,
    Allocation,
    Decision,
    Job,
    Preempt,
    Start,
)
from dally.policies.base import Policy, ahead
from dally.policies.ordering.base import Order
from dally.policies.placement.best_fit import best_fit
from dally.policies.placement.delay import DelayPlacement
from dally.policies.queue import Queue, demand
from dally.policies.view import View


class DelayClass:
    """Waiting jobs that ask for the same.

    Those that never ran are ranked by how long they wait, so that if the first is not patient enough
    nobody is. Those that ran before are ranked by their key, and also kept by age.
    """

    __slots__ = ("by_age", "fresh", "gpus", "group", "jobs", "stopped", "told_tier", "told_timers_s")

    def __init__(self, gpus: i64, group: i64) -> None:
        self.gpus: i64 = gpus
        self.group: i64 = group
        self.jobs: dict[int, Job] = {}  # by slot
        self.fresh: IndexedHeap = IndexedHeap()
        self.stopped: IndexedHeap = IndexedHeap()
        self.by_age: IndexedHeap = IndexedHeap()
        self.told_tier: i64 = -2  # the offer and the timers as last recorded
        self.told_timers_s: vec[float] = vec[float]()

    def first_ripe(self, patience_s: float, now: float) -> Job | None:
        """The best-ranked job that has waited that long."""
        found: Job | None = None
        slot = self.fresh.first()
        if slot >= 0 and self.jobs[int(slot)].lost_s + patience_s <= now:
            found = self.jobs[int(slot)]
        other = self._stopped_ripe(patience_s, now)
        if other is None:
            return found
        if found is None or self._comes_first(other, found):
            return other
        return found

    def _comes_first(self, stopped: Job, fresh: Job) -> bool:
        return ahead(
            self.stopped.key(stopped.slot), stopped.lost_s, stopped.index,
            self.fresh.key(fresh.slot), fresh.lost_s, fresh.index,
        )  # fmt: skip

    def _stopped_ripe(self, patience_s: float, now: float) -> Job | None:
        """Looks down the heap from the best rank; unripe are only those that lost their GPUs recently."""
        heap = self.stopped
        if len(heap) == 0 or self.jobs[int(self.by_age.first())].lost_s + patience_s > now:
            return None
        frontier = IndexedHeap()
        frontier.put(0, heap.key(heap.first()), heap.tie(heap.first()))
        while True:
            place = frontier.pop()
            job = self.jobs[int(heap.items[place])]
            if job.lost_s + patience_s <= now:
                return job
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(heap.items):
                    slot = heap.items[child]
                    frontier.put(child, heap.key(slot), heap.tie(slot))

    def oldest_s(self) -> float:
        """When the one who waits longest began to; infinity when nobody waits."""
        oldest = INFINITY
        if len(self.fresh) > 0:
            oldest = self.jobs[int(self.fresh.first())].lost_s
        if len(self.by_age) > 0:
            oldest = min(oldest, self.jobs[int(self.by_age.first())].lost_s)
        return oldest


@mypyc_attr(allow_interpreted_subclasses=True)
class DallyPolicy(Policy):
    """Offers GPUs, those of ended leases among them, down the order; each job takes or declines.

    Sharma et al., arXiv 2401.16492. Where we depart from it: a gang whose lease ended keeps its GPUs
    unless a better-ranked job needs just these, and such a job is given free GPUs first if they are as
    close; and no tier is refused by a job that would take a farther one.
    """

    def __init__(self, order: Order, placement: DelayPlacement, lease_s: float) -> None:
        self.order: Order = order
        self.placement: DelayPlacement = placement
        self._lease_s: float = lease_s
        self._classes: list[DelayClass] = []
        self._by_demand: dict[int, DelayClass] = {}
        self._offer: Cluster | None = None  # the cluster as if all ended leases were released
        self._ended: dict[int, Job] = {}  # whose leases ended now and whose fate is open
        self._wakeup_s: float = INFINITY
        self._decisions: list[Decision] = []

    def begin(self, view: View) -> None:
        super().begin(view)
        self.order.begin(view)
        self.placement.begin(view)

    def save(self) -> dict[str, Any]:
        return {"waits": self.placement.timers.samples()}

    def load(self, saved: dict[str, Any]) -> None:
        self.placement.timers.restore([(row[0], row[1], row[2], row[3]) for row in saved["waits"]])

    def decisions(self) -> list[Decision]:
        told = self._decisions
        self._decisions = []
        return told

    def key(self, job: Job, now: float) -> float:
        return self.order.key(job, now)

    def tie(self, job: Job) -> float:
        return job.lost_s

    def lease_s(self) -> float:
        return self._lease_s

    def next_wakeup(self, now: float) -> float:
        return self._wakeup_s

    # Keeping books.

    def queued(self, job: Job, now: float) -> None:
        key = demand(job)
        group = self._by_demand.get(key)
        if group is None:
            group = DelayClass(job.gpus, job.group)
            self._by_demand[key] = group
            self._classes.append(group)
        group.jobs[int(job.slot)] = job
        rank = self.order.key(job, now)
        waits = Decision(WAITS, job, job.gpus, job.group)
        waits.value = rank
        self._decisions.append(waits)
        if job.start_s < 0.0:
            group.fresh.put(job.slot, rank, job.lost_s)
        else:
            group.stopped.put(job.slot, rank, job.lost_s)
            group.by_age.put(job.slot, job.lost_s, 0.0)

    def started(self, job: Job, now: float) -> None:
        group = self._by_demand[demand(job)]
        if int(job.slot) in group.jobs:  # a migrated job was not waiting
            del group.jobs[int(job.slot)]
            group.fresh.discard(job.slot)
            group.stopped.discard(job.slot)
            group.by_age.discard(job.slot)
            if self._offer is not None and job.tier < self._offer.root:
                self.placement.timers.note(job.tier, job.gpus, now, now - job.lost_s)
        if self._offer is not None and job.allocation is not None:
            self._offer.take(job, job.allocation)

    def stopped(self, job: Job, now: float) -> None:
        if int(job.index) in self._ended:
            del self._ended[int(job.index)]
        elif self._offer is not None and job.allocation is not None:
            self._offer.give_back(job, job.allocation)

    def lease_ended(self, job: Job, now: float) -> None:
        if self._offer is not None and job.allocation is not None:
            self._offer.give_back(job, job.allocation)
            self._ended[int(job.index)] = job

    def machine_failed(self, machine: i64, now: float) -> None:
        if self._offer is not None:
            self._offer.fail(machine)

    def machine_repaired(self, machine: i64, now: float) -> None:
        if self._offer is not None:
            self._offer.repair(machine)

    def _keep(self, job: Job) -> None:
        """The lease is renewed."""
        del self._ended[int(job.index)]
        if self._offer is not None and job.allocation is not None:
            self._offer.take(job, job.allocation)

    # The pass.

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        self._wakeup_s = INFINITY
        if self._offer is None:
            self._offer = _copy_of(cluster)
        if len(queue) == 0:
            for job in list(self._ended.values()):
                self._keep(job)
            return []
        return self._offers(now, queue, cluster, self._offer)

    def _offers(self, now: float, queue: Queue, cluster: Cluster, offer: Cluster) -> Iterator[Action]:
        contenders = self._ranked_ended(now)  # best rank last
        while True:
            job, tier = self._next(now, queue, offer)
            if contenders and (job is None or self.order.key(contenders[-1], now) < queue.key(job)):
                kept = contenders.pop()
                if kept.status == RUNNING and int(kept.index) in self._ended:
                    self._keep(kept)
                continue
            if job is None:
                break
            if self.placement.offered(cluster, job.gpus, job.group) == tier:
                allocation = best_fit(cluster, tier, job.gpus, job.group)
            else:
                allocation = self._disturbing_least(offer, tier, job, contenders)
            assert allocation is not None
            for machine, gpus in allocation.parts():
                while cluster.free_on(machine) < gpus:
                    loser = self._worst_on(machine, contenders)
                    loses = Decision(LOSE, loser, loser.gpus, loser.group)
                    loses.other = job.index
                    self._decisions.append(loses)
                    yield Preempt(loser)
            accepts = Decision(ACCEPT, job, job.gpus, job.group)
            accepts.tier = tier
            accepts.value = self.placement.patience_s(offer, tier, job.gpus, job.group, now)
            self._decisions.append(accepts)
            yield Start(job, allocation)
        self._close(now, offer)

    def _disturbing_least(self, offer: Cluster, tier: i64, job: Job, contenders: list[Job]) -> Allocation | None:
        """A place for the job at that tier that leaves the best-ranked ended leases alone if it can."""
        spared: list[Job] = []
        for place in range(len(contenders) - 1, -1, -1):
            other = contenders[place]
            held = other.allocation
            if int(other.index) not in self._ended or held is None:
                continue
            offer.take(other, held)
            if self.placement.offered(offer, job.gpus, job.group) == tier:
                spared.append(other)
            else:
                offer.give_back(other, held)
        allocation = best_fit(offer, tier, job.gpus, job.group)
        for other in spared:
            held = other.allocation
            assert held is not None
            offer.give_back(other, held)
        return allocation

    def _next(self, now: float, queue: Queue, offer: Cluster) -> tuple[Job | None, i64]:
        """The best-ranked job that takes what it is offered, and the tier of that."""
        found: Job | None = None
        found_tier: i64 = -1
        for group in self._classes:
            if len(group.jobs) == 0 or group.gpus > offer.free_gpus:
                continue
            tier = self.placement.offered(offer, group.gpus, group.group)
            if tier < 0:
                continue
            patience_s = self.placement.patience_s(offer, tier, group.gpus, group.group, now)
            job = group.first_ripe(patience_s, now)
            if job is None:
                continue
            if found is None or ahead(
                queue.key(job), job.lost_s, job.index, queue.key(found), found.lost_s, found.index
            ):
                found = job
                found_tier = tier
        return found, found_tier

    def _ranked_ended(self, now: float) -> list[Job]:
        rows = [
            (self.order.key(job, now), int(job.gpus), job.lost_s, int(job.index)) for job in self._ended.values()
        ]
        rows.sort(reverse=True)
        return [self._ended[row[3]] for row in rows]

    def _worst_on(self, machine: int, contenders: list[Job]) -> Job:
        """The worst-ranked gang on that machine whose lease ended."""
        for job in contenders:
            if int(job.index) in self._ended and _sits_on(job, machine):
                return job
        raise AssertionError("nobody to preempt, though the GPUs were on offer")

    def _close(self, now: float, offer: Cluster) -> None:
        """Record what is on offer to those left waiting, and set the moment the first of them takes it."""
        for group in self._classes:
            if len(group.jobs) == 0:
                continue
            tier = self.placement.offered(offer, group.gpus, group.group)
            self._tell(group, tier, now, offer)
            if tier <= offer.topology.closest_tier(group.gpus, group.group):
                continue
            patience_s = self.placement.patience_s(offer, tier, group.gpus, group.group, now)
            for moment_s in (
                group.oldest_s() + patience_s,
                self.placement.timers.changes_s(tier, offer.root, group.gpus, now),
            ):
                if now < moment_s < self._wakeup_s:
                    self._wakeup_s = moment_s

    def _tell(self, group: DelayClass, tier: i64, now: float, offer: Cluster) -> None:
        timers_s: vec[float] = vec[float]()
        for above in range(1, offer.root + 1):
            timers_s = append(timers_s, self.placement.patience_s(offer, above, group.gpus, group.group, now))
        if tier == group.told_tier and _same(timers_s, group.told_timers_s):
            return
        group.told_tier = tier
        group.told_timers_s = timers_s
        told = Decision(OFFER, None, group.gpus, group.group)
        told.tier = tier
        told.timers_s = timers_s
        self._decisions.append(told)


def _same(one: vec[float], other: vec[float]) -> bool:
    same = len(one) == len(other)
    for place in range(len(one)):
        same = same and one[place] == other[place]
    return same


def _copy_of(cluster: Cluster) -> Cluster:
    """Another cluster with the same GPUs taken and the same machines down."""
    copy = Cluster(cluster.topology)
    for machine in range(len(cluster.down)):
        if cluster.down[machine]:
            copy.fail(machine)
    for job in cluster.running.values():
        allocation = job.allocation
        assert allocation is not None
        copy.take(job, allocation)
    return copy


def _sits_on(job: Job, machine: i64) -> bool:
    allocation: Allocation | None = job.allocation
    assert allocation is not None
    machines: vec[i64] = allocation.machines
    return machine in machines
