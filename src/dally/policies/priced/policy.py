"""The pass: who starts, where, and at whose expense."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import INFINITY, RUNNING, Action, Allocation, Job, Migrate, Preempt, Start
from dally.policies.base import Policy
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.placement.best_fit import fill
from dally.policies.priced.compaction import cheapest_clearing, worth
from dally.policies.priced.eviction import cheapest_eviction
from dally.policies.priced.limits import SLACK, Limits
from dally.policies.priced.migration import better_place, by_what_they_lose
from dally.policies.priced.prices import Prices
from dally.policies.queue import Queue
from dally.policies.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class PricedPolicy(Policy):
    """Gangs by Gittins rank, each at its closest tier unless farther is almost free of charge.

    Domains are made by moving others before anybody is preempted, and every running gang moves to any faster
    place that pays for its restart.
    """

    def __init__(self, order: GittinsOrder, limits: Limits) -> None:
        self.order: GittinsOrder = order
        self.limits: Limits = limits
        self._prices: Prices | None = None
        self._spread: dict[int, Job] = {}  # running gangs on several machines
        self._worst: IndexedHeap = IndexedHeap(largest_first=True)  # running jobs by rank
        self._free_from_s: dict[int, float] = {}  # when a running job may be preempted
        self._given_back: bool = False  # whether GPUs were, since the latest pass
        self._waiting: bool = False

    def begin(self, view: View) -> None:
        super().begin(view)
        self._prices = Prices(view)
        self.order.begin(view)

    def save(self) -> dict[str, Any]:
        return {"finishes": int(self.order.table.finishes), "classes": self.order.table.rows()}

    def load(self, saved: dict[str, Any]) -> None:
        self.order.table.restore(saved["classes"], saved["finishes"])

    def key(self, job: Job, now: float) -> float:
        return self.order.key(job, now)

    def next_wakeup(self, now: float) -> float:
        return now + self.limits.wake_s if self._waiting else INFINITY

    # Keeping books.

    def queued(self, job: Job, now: float) -> None:
        self.order.queued(job, now)

    def started(self, job: Job, now: float) -> None:
        self.order.started(job, now)
        assert self._prices is not None
        hold_s = self.limits.hold * self._prices.stop_s(job)
        self._free_from_s[int(job.index)] = job.since_s + max(self.limits.least_hold_s, hold_s)
        self._worst.put(job.index, self.order.key(job, now), 0.0)
        allocation = job.allocation
        if allocation is not None and len(allocation.machines) > 1:
            self._spread[int(job.index)] = job

    def stopped(self, job: Job, now: float) -> None:
        self.order.stopped(job, now)
        self._worst.discard(job.index)
        self._free_from_s.pop(int(job.index), None)
        self._spread.pop(int(job.index), None)
        self._given_back = True

    def withdrawn(self, job: Job, now: float) -> None:
        self.order.withdrawn(job, now)

    def finished(self, job: Job, now: float) -> None:
        self.order.finished(job, now)

    def rerated(self, job: Job, now: float) -> None:
        self.order.rerated(job, now)

    # The pass.

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        for job in self.order.changed(now, cluster):
            if job.status == RUNNING:
                self._worst.put(job.index, self.order.key(job, now), 0.0)
            else:
                queue.rerank(job, self.order.key(job, now), 0.0)
        prices = self._prices
        assert prices is not None
        return self._pass(now, queue, cluster, prices)

    def _pass(self, now: float, queue: Queue, cluster: Cluster, prices: Prices) -> Iterator[Action]:
        if self._given_back and self.limits.migration:
            for job in by_what_they_lose(self._spread, now, self.limits, prices, self.order):
                allocation = better_place(job, cluster, self.limits, prices, self.order)
                if allocation is not None:
                    yield Migrate(job, allocation)
        self._given_back = False
        while True:
            best = queue.best()
            if best is None:
                break
            actions = self._serve(best, now, cluster, prices)
            if not actions:
                queue.close(best)
            yield from actions
        queue.reopen()
        for group in list(queue.classes):
            while len(group.heap) > 0:
                first = group.job(group.heap.first())
                place = self._leftover(first, now, cluster, prices)
                if place is None:
                    break
                yield Start(first, place)
        self._waiting = len(queue) > 0

    def _serve(self, job: Job, now: float, cluster: Cluster, prices: Prices) -> list[Action]:
        """What makes the job start: a free place, others moved out of its way, or preempted; [] if nothing does."""
        near = cluster.topology.closest_tier(job.gpus, job.group)
        found = self._place(job, near, cluster, prices, self.limits.near_price, self.limits.far_price)
        if found is not None:
            return [Start(job, found)]
        if job.group > 1:
            return []
        actions: list[Action] = []
        if self.limits.compaction:
            clearing = cheapest_clearing(job, near, now, cluster, prices)
            if clearing is not None and worth(clearing, job, self.order.left_s(job)):
                for move in clearing.moves:
                    actions.append(Migrate(move.job, move.allocation))
                actions.append(Start(job, self._filled(job, near, clearing.domain, actions, cluster)))
                return actions
        if self.limits.preemption:
            candidates = self._candidates(job, now)
            eviction = cheapest_eviction(job, near, candidates, cluster, self.order) if candidates else None
            if eviction is not None:
                for loser in eviction.losers:
                    self.reasons.lost(loser, job)
                    actions.append(Preempt(loser))
                actions.append(Start(job, self._filled(job, near, eviction.domain, actions, cluster)))
        return actions

    def _place(
        self, job: Job, near: i64, cluster: Cluster, prices: Prices, near_price: float, far_price: float
    ) -> Allocation | None:
        """The cheapest place of the closest tier that has one within its limit."""
        if cluster.free_gpus < job.gpus:
            return None
        for tier in range(cluster.root + 1):
            place = prices.cheapest(job, cluster, tier)
            limit = near_price if tier <= near else far_price
            if place is not None and place.price <= limit + SLACK:
                return place.allocation
        return None

    def _filled(self, job: Job, tier: i64, domain: i64, before: list[Action], cluster: Cluster) -> Allocation:
        """The GPUs of a domain that the job gets once these actions are done."""
        trial = cluster.trial()
        for action in before:
            held = action.job.allocation
            assert held is not None
            trial.release(held)
            if isinstance(action, Migrate):
                trial.take(action.allocation)
        allocation = Allocation(tier)
        fill(cluster, tier, domain, job.gpus, allocation)
        trial.undo()
        return allocation

    def _candidates(self, job: Job, now: float) -> list[Job]:
        """Running jobs that may lose their GPUs to this one, worst rank first."""
        rank = self.order.key(job, now)
        worst = self._worst.first()
        if worst < 0 or self.limits.stick * self._worst.key(worst) <= rank:
            return []
        rows: list[tuple[float, int]] = []
        for item in self._worst.items:
            key = self._worst.key(item)
            if self.limits.stick * key > rank and self._free_from_s[int(item)] <= now:
                rows.append((-key, int(item)))
        rows.sort()
        found: list[Job] = []
        for row in rows:
            other = self.order.ranked_at(row[1])
            if other.placed_s < now:
                found.append(other)
        return found

    def _leftover(self, job: Job, now: float, cluster: Cluster, prices: Prices) -> Allocation | None:
        """A place for one who was passed over: a little slower, or as slow as its wait has paid for."""
        near = cluster.topology.closest_tier(job.gpus, job.group)
        limits = self.limits
        left_s = self.order.left_s(job) * prices.best(job)
        if cluster.free_gpus < job.gpus:
            return None
        for tier in range(cluster.root + 1):
            place = prices.cheapest(job, cluster, tier)
            if place is None:
                continue
            limit = limits.leftover_near_price if tier <= near else limits.leftover_far_price
            paid = place.price <= limits.patient_price and (place.price - 1.0) * left_s <= now - job.lost_s
            if place.price <= limit + SLACK or paid:
                return place.allocation
        return None
