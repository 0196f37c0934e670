"""The pass: who starts, where, and at whose expense."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import (
    CANCELLED,
    INFINITY,
    RUNNING,
    WAITING,
    Action,
    Allocation,
    Costs,
    Job,
    Migrate,
    Preempt,
    Start,
)
from dally.perf.base import SpeedModel
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.dally.books import Books
from dally.policies.dally.churn import Churn
from dally.policies.dally.compaction import cheapest_clearing
from dally.policies.dally.eviction import Room, add_candidates, cheapest_eviction
from dally.policies.dally.kept_domain import NOBODY, Kept
from dally.policies.dally.limits import SLACK, Limits
from dally.policies.dally.losses import Losses
from dally.policies.dally.migration import better_place, by_what_they_lose
from dally.policies.dally.mixing import cheapest_opening
from dally.policies.dally.movable import Movable
from dally.policies.dally.moves import Move
from dally.policies.dally.patience import Patience
from dally.policies.dally.pricing import Prices
from dally.policies.dally.rescue import keep_domain, tier_with_room
from dally.policies.dally.retries import Retries
from dally.policies.dally.told_by_hand import Told
from dally.policies.events import PolicyEvent
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.placement.best_fit import best_fit, fit_into
from dally.policies.queue import DemandClass, Queue
from dally.policies.view import View

MOST_MADE: Final = 12  # gangs for which one pass makes room on a large cluster; the next goes on
SOON_S: Final = 1.0  # when that is, unless something happens before
RECORD_SLACK: Final = 0.1  # a delay that changes by less is not recorded again
AT_A_TIME: Final = 64  # running jobs looked at before asking whether that is enough


@mypyc_attr(allow_interpreted_subclasses=True)
class Dally(Policy):
    """Gangs by Gittins rank, each at its closest tier unless farther is almost free of charge.

    Domains are made by moving others before anybody is preempted, and every running gang moves to any faster
    place that pays for its restart. Nobody waits for ever: a job whose patience has ended is served first.
    """

    def __init__(self, order: GittinsOrder, limits: Limits) -> None:
        self.order = order
        self.ranks: GittinsOrder = order
        self.limits: Limits = limits
        self._prices: Prices = Prices(View(SpeedModel(), Costs()), limits)  # until a run begins
        self._books: Books = Books()
        self._retries: Retries = Retries(limits.wake_s)
        self._tried: list[Job] = []  # in this pass, in vain
        self._made: i64 = 0  # gangs for which it has made room
        self._losses: Losses = Losses(limits.least_excess)
        self._churn: Churn = Churn(limits)
        self._movable: Movable = Movable(self._churn, self._books)
        self._patience: Patience = Patience(limits)
        told = Told()
        self.delay_overrides = told
        self.migrates = limits.migration
        self._told_by_hand: Told = told
        self._kept: Kept = Kept()
        self._look_for_moves: bool = False  # GPUs came back, or the network is another one
        self._told: bool = False  # whether anything happened since the latest pass
        self._shown: float = INFINITY  # which jobs the latest pass saw: under queues not always all
        self._scatters: bool = limits.scatter  # in this pass

    def begin(self, view: View) -> None:
        super().begin(view)
        self._prices = Prices(view, self.limits)
        self.ranks.begin(view)

    def save(self) -> dict[str, Any]:
        return self.ranks.table.saved()

    def load(self, saved: dict[str, Any]) -> None:
        self.ranks.table.restore(saved)

    # Keeping books.

    def on(self, event: PolicyEvent) -> None:
        kind = event.kind
        job = event.job
        if job is not None:
            self._on_job(kind, job, event.now)
        elif kind != events.PASS_ENDED and kind != events.UNSCHEDULABLE:
            self._told = True
            if kind == events.CAPACITY_CHANGED:
                self._others_moved()
            elif kind == events.MACHINE_REPAIRED:
                self._look_for_moves = True
            elif kind == events.NETWORK_CHANGED:
                self._look_for_moves = True
                self.ranks.forget_ranks()
                self._losses.look_again(self._prices)

    def _on_job(self, kind: i64, job: Job, now: float) -> None:
        if kind == events.RERATED:
            self.ranks.rerated(job, now)
            self._losses.note(job, self._prices)
        elif kind == events.QUEUED:
            self._told = True
            self.ranks.queued(job, now)
            self._patience.waits(job)
            self._told_by_hand.waits(job)
        elif kind == events.STARTED:
            self._started(job, now)
        elif kind == events.STOPPED:
            self._stopped(job, now)
        elif kind == events.FINISHED:
            self.ranks.finished(job, now)
            self._patience.forget(job)
            self._churn.forget(job)
        elif kind == events.WITHDRAWN:
            self._withdrawn(job, now)
        elif kind == events.OVERRIDDEN:
            self._overridden(job, now)
        elif kind == events.PREEMPTIBILITY:
            self._books.remove(job)
            self._enter(job, now)
            self._retries.forget(job)
            self._told = True
            self._others_moved()  # others may gain or lose by it
        elif kind == events.PREEMPTION_FAILED:
            self._stopped(job, now)
            self._started(job, now)

    def _overridden(self, job: Job, now: float) -> None:
        self._told = True
        self._retries.forget(job)
        if job.status == WAITING:
            self._patience.waits(job)
            self._told_by_hand.waits(job)
        elif self._books.holds(job):
            self._books.rerank(job, self._rank(job, now))

    def _rank(self, job: Job, now: float) -> float:
        """Against others; nobody takes from one whom an operator put first."""
        return -INFINITY if job.prioritized else self.ranks.key(job, now)

    def _started(self, job: Job, now: float) -> None:
        self._told = True
        self.ranks.started(job, now)
        self._patience.leaves(job)
        self._told_by_hand.leaves(job)
        self._enter(job, now)
        self._losses.note(job, self._prices)
        self._movable.forget()
        self._retries.forget(job)
        self._retries.changed()

    def _enter(self, job: Job, now: float) -> None:
        """Into the books of those who may be preempted or moved, unless it stays."""
        if not job.non_preemptible:
            hold_s = max(self.limits.least_hold_s, self.limits.hold * self._prices.restart_s(job))
            until_s = max(job.since_s + hold_s, self._patience.protected_until_s(job))
            self._books.add(job, self._rank(job, now), until_s)

    def _stopped(self, job: Job, now: float) -> None:
        self._told = True
        self._look_for_moves = True
        self.ranks.stopped(job, now)
        self._books.remove(job)
        self._losses.remove(job)
        self._movable.forget()
        self._retries.forget(job)
        self._retries.changed()

    def _withdrawn(self, job: Job, now: float) -> None:
        self._told = True
        self._retries.forget(job)
        self.ranks.withdrawn(job, now)
        self._patience.leaves(job)
        self._told_by_hand.leaves(job)
        if job.status == CANCELLED:
            self._patience.forget(job)
            self._churn.forget(job)

    def _others_moved(self) -> None:
        self._look_for_moves = True
        self._movable.forget()
        self._retries.changed()

    # The pass.

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        changed = self._told or self._told_by_hand.changed
        if not changed and now < self.wakeup_s and queue.shown == self._shown:
            return []  # nothing happened: what was decided stands
        for moved in self.ranks.moved(now):
            job = moved.job
            if job.status == RUNNING:
                self._books.rerank(job, -INFINITY if job.prioritized else moved.rank)
            elif queue.holds(job):  # not one on hold
                queue.rerank(job, moved.rank, 0.0)
        self._prices.begin_pass()
        self._made = 0
        self._retries.begin_pass(cluster.topology.machine_count(), len(cluster.running))
        self._churn.begin_pass(now, cluster.topology.total_gpus())
        running = cluster.topology.total_gpus() - cluster.free_gpus
        slow = self._losses.slower_than(self.limits.most_slowdown, running)
        self._scatters = self.limits.scatter and not slow
        return self._pass(now, queue, cluster)

    def _pass(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        if self._look_for_moves and self.limits.migration:
            yield from self._migrate(now, cluster)
        self._look_for_moves = False
        yield from self._rescue(now, queue, cluster)
        while True:
            best = queue.best()
            if best is None:
                break
            actions = self._serve(best, now, cluster)
            yield from _as_long_as_they_succeed(actions)
            if best.status != RUNNING:
                queue.close(best)
        queue.reopen()
        if self._told_by_hand.anything():
            yield from self._anywhere(now, queue, cluster)
        for group in list(queue.classes):
            while len(group.heap) > 0:
                first = group.job(group.heap.first())
                place = self._leftover(first, group, now, cluster)
                if place is None:
                    break
                yield Start(first, place)
        for job in self._tried:
            if job.status != RUNNING:
                self._retries.failed(job, now)
        self._tried.clear()
        self._told = self._told_by_hand.changed = False
        self._shown = queue.shown
        self.wakeup_s = INFINITY
        if len(queue) > 0 and len(cluster.running) > 0:
            patience_s = self._patience.next_s()
            self.wakeup_s = now + self.limits.wake_s
            if now < patience_s < self.wakeup_s:
                self.wakeup_s = patience_s
            if self._has_made_most():
                self.wakeup_s = min(self.wakeup_s, now + SOON_S)
        if self._told_by_hand.anything():  # where nobody runs, too: who was told to hold out takes no other place
            self.wakeup_s = min(self.wakeup_s, self._told_by_hand.next_s(queue, now))

    def _migrate(self, now: float, cluster: Cluster) -> Iterator[Action]:
        """Running gangs go to faster places."""
        limits = self.limits
        for job in by_what_they_lose(self._losses.slow, now, limits, self._prices, self.ranks, self._retries):
            if self._prices.spent() or not self._churn.allows():
                break
            if not self._churn.may_move(job, now):
                continue
            move = better_place(job, now, cluster, self._kept, self.limits, self._prices, self.ranks)
            if move is None:
                self._retries.failed(job, now)
            else:
                yield self._moved(move, None, now)

    def _moved(self, move: Move, for_whom: Job | None, now: float) -> Action:
        self._churn.spend(move.job, move.cost_s)
        self._churn.moved(move.job, now)
        self.reasons.moved(move.job, for_whom, self._prices.restart_s(move.job), move.saved_s)
        return Migrate(move.job, move.allocation)

    def _stopped_for(self, loser: Job, winner: Job, now: float) -> Action:
        restart_s = self._prices.restart_s(loser)
        at_risk_s = self._prices.at_risk_s(loser, now)
        self._churn.spend(loser, restart_s + at_risk_s)
        ranks = (self.ranks.key(winner, now), self.ranks.key(loser, now))
        self.reasons.lost_at(loser, winner, ranks[0], ranks[1], restart_s, at_risk_s)
        return Preempt(loser)

    # Those who have waited too long.

    def _rescue(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Serve those whose patience has ended; the first who cannot be served gets a domain kept free."""
        patience = self._patience
        while True:
            job = patience.first(now)
            hidden = job is not None and not queue.shows(job)
            if job is None or hidden or not patience.room_for(job, cluster.topology.total_gpus(), now):
                self._kept.let_go()
                self.reasons.reserved(None, INFINITY)
                return
            near = cluster.topology.closest_tier(job.gpus, job.group)
            if near < 0:  # it fits nowhere, ever
                patience.leaves(job)
                continue
            near = tier_with_room(job, near, cluster)
            before = self._kept.domain if self._kept.job == job.index else NOBODY
            self._kept.let_go()
            actions = self._serve_first(job, near, now, cluster)
            if not actions:
                if before != NOBODY:
                    self._kept.keep(job, near, before)
                preempts = self.limits.preemption and job.group == 1
                ready_s = keep_domain(job, near, preempts, cluster, self._books, self._kept)
                self.reasons.reserved(job, ready_s)
                return
            patience.protect(job, now + self.limits.stretch_s)
            yield from _as_long_as_they_succeed(actions)
            if job.status != RUNNING:
                patience.forget(job)
                return

    def _serve_first(self, job: Job, near: i64, now: float, cluster: Cluster) -> list[Action]:
        """What makes a job start at its closest tier whatever its rank; [] if nothing does yet."""
        for tier in range(near + 1):
            place = best_fit(cluster, tier, job.gpus, job.group)
            if place is not None:
                return [Start(job, place)]
        if job.group > 1 or not self.limits.preemption:
            return []
        return self._evict(job, near, self._rooms(job, near, -INFINITY, 1.0, now, cluster), now, cluster)

    # Everybody else.

    def _serve(self, job: Job, now: float, cluster: Cluster) -> list[Action]:
        """What makes the job start: a free place, others moved out of its way, or preempted; [] if nothing does."""
        near = cluster.topology.closest_tier(job.gpus, job.group)
        due = self._retries.is_due(job, now)
        found = self._place(job, near, due, cluster)
        if found is not None:
            return [Start(job, found)]
        if not due or self._prices.spent() or self._has_made_most():
            return []
        actions = self._made_room(job, near, now, cluster) if job.group == 1 and self._churn.allows() else []
        if actions:
            self._made += 1
        else:
            self._tried.append(job)
        return actions

    def _has_made_most(self) -> bool:
        """Whether this pass has made room for as many as it may: after ranks changed hundreds may be due."""
        return self._made >= MOST_MADE and self._retries.large()

    def _made_room(self, job: Job, near: i64, now: float, cluster: Cluster) -> list[Action]:
        """Others moved out of the job's way or preempted, and its start; [] if there is no way."""
        actions: list[Action] = []
        if self.limits.compaction:
            actions = self._clear(job, near, now, cluster)
        if not actions and self.limits.preemption:
            rooms = self._rooms(job, near, self._rank(job, now), self.limits.stick, now, cluster)
            actions = self._evict(job, near, rooms, now, cluster)
            if not actions and self.limits.mixing:
                actions = self._open(job, near, rooms, now, cluster)
        return actions

    def _place(self, job: Job, near: i64, due: bool, cluster: Cluster) -> Allocation | None:
        """The cheapest place of the closest tier that has one within its limit; farther away only if it is due."""
        if cluster.free_gpus < job.gpus:
            return None
        found: Allocation | None = None
        trial = self._kept.trial(cluster)
        far = self._scatters and due and self._told_by_hand.until_s(job) < 0.0
        for tier in range((cluster.root if far else near) + 1):
            if self._prices.spent():  # the pass acts on what it knows
                found = best_fit(cluster, tier, job.gpus, job.group) if tier <= near else None
                if found is not None:
                    break
                continue
            place = self._prices.cheapest(job, cluster, tier, self._prices.domains)
            limit = self.limits.near_price if tier <= near else self.limits.far_price
            if place is not None and place.price <= limit + SLACK:
                found = place.allocation
                break
        trial.undo()
        return found

    def _clear(self, job: Job, near: i64, now: float, cluster: Cluster) -> list[Action]:
        """Others moved out of the job's way, and its start."""
        found = cheapest_clearing(job, near, now, cluster, self._kept, self.limits, self._prices, self._movable)
        gain_gpu_s = float(job.gpus) * self.ranks.left_s(job)
        if found is None or self.limits.clear_worth * found.cost_gpu_s > gain_gpu_s:
            return []
        actions: list[Action] = [self._moved(move, job, now) for move in found.moves]
        actions.append(Start(job, self._filled(job, near, found.domain, actions, cluster)))
        return actions

    def _rooms(
        self, job: Job, near: i64, rank: float, stick: float, now: float, cluster: Cluster
    ) -> dict[int, Room]:
        """By domain, what there is for the job if those are preempted who count as worse than that rank.

        The worst-ranked come first, and a few at a time: on a large cluster the first ones are more than enough.
        """
        rooms: dict[int, Room] = {}
        enough: i64 = 0
        seen: i64 = 0
        most: i64 = self.limits.most_candidates
        while enough < self.limits.most_domains and seen < most:
            candidates = self._books.worse_than(rank, stick, now, seen, min(seen + AT_A_TIME, most))
            if candidates is None:
                break
            self._prices.asked += len(candidates)
            enough += add_candidates(rooms, job.gpus, near, candidates, cluster)
            seen += AT_A_TIME
        return rooms

    def _evict(self, job: Job, near: i64, rooms: dict[int, Room], now: float, cluster: Cluster) -> list[Action]:
        """Others preempted for the job, and its start."""
        found = cheapest_eviction(job, near, rooms, now, cluster, self._kept, self.ranks, self._prices)
        if found is None:
            return []
        actions: list[Action] = [self._stopped_for(loser, job, now) for loser in found.losers]
        actions.append(Start(job, self._filled(job, near, found.domain, actions, cluster)))
        return actions

    def _open(self, job: Job, near: i64, rooms: dict[int, Room], now: float, cluster: Cluster) -> list[Action]:
        """Some moved, some preempted for the job, and its start."""
        found = cheapest_opening(
            job, near, rooms, now,
            cluster, self._kept, self.limits, self.ranks, self._prices, self._movable,
        )  # fmt: skip
        if found is None:
            return []
        actions: list[Action] = [self._moved(move, job, now) for move in found.moves]
        actions += [self._stopped_for(loser, job, now) for loser in found.losers]
        actions.append(Start(job, self._filled(job, near, found.domain, actions, cluster)))
        return actions

    def _filled(self, job: Job, tier: i64, domain: i64, before: list[Action], cluster: Cluster) -> Allocation:
        """The GPUs of a domain that the job gets once these actions are done."""
        trial = cluster.trial()
        for action in before:
            held = action.job.allocation
            assert held is not None
            trial.release(held)
            if isinstance(action, Migrate):
                trial.take(action.allocation)
        allocation = fit_into(cluster, tier, domain, job.gpus)
        trial.undo()
        return allocation

    def _anywhere(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Whoever is to take any place, as an operator said, takes the closest there is."""
        for job in self._told_by_hand.takers(queue, now):
            trial = self._kept.trial(cluster)
            place: Allocation | None = None
            for tier in range(cluster.root + 1):
                place = best_fit(cluster, tier, job.gpus, job.group)
                if place is not None:
                    break
            trial.undo()
            if place is not None:
                yield Start(job, place)

    def _leftover(self, job: Job, group: DemandClass, now: float, cluster: Cluster) -> Allocation | None:
        """A place for one who was passed over: a little slower, or as slow as its wait has paid for.

        Where nobody runs any place will do: waiting would bring nothing.
        """
        if cluster.free_gpus < job.gpus or self._prices.spent() or not self._retries.is_due(job, now):
            return None
        near = cluster.topology.closest_tier(job.gpus, job.group)
        limits = self.limits
        left_s = self.ranks.left_s(job) * self._prices.best(job)
        alone = len(cluster.running) == 0
        found: Allocation | None = None
        offered: i64 = -1
        delays_s: vec[float] = vec[float]()  # by tier above the machine
        trial = self._kept.trial(cluster)
        until_s = self._told_by_hand.until_s(job)
        far = self._scatters and until_s < 0.0
        for tier in range((cluster.root if far else near) + 1):
            place = self._prices.cheapest(job, cluster, tier, self._prices.domains)
            delay_s = INFINITY
            if place is not None:
                offered = tier if offered < 0 else offered
                limit = limits.leftover_near_price if tier <= near else limits.leftover_far_price
                free_of_charge = place.price <= limit + SLACK or alone
                if place.price <= limits.patient_price:
                    delay_s = (place.price - 1.0) * left_s
                if free_of_charge or delay_s <= now - job.lost_s:
                    found = place.allocation
                    if not free_of_charge:
                        self.reasons.accepted(job, tier, delay_s)
                    break
            if tier > 0:
                delays_s = append(delays_s, delay_s)
        if found is None and offered < 0:
            offered = self.placement.offered(cluster, job.gpus, job.group)
        trial.undo()
        if found is None:
            while len(delays_s) < cluster.root:
                delays_s = append(delays_s, until_s - job.lost_s if until_s >= 0.0 else INFINITY)
            self.reasons.offered_to(job, group, offered, delays_s, RECORD_SLACK)
        return found


def _as_long_as_they_succeed(actions: list[Action]) -> Iterator[Action]:
    """One after the other; none after one that the cluster refused, as the next need the GPUs that it frees."""
    for action in actions:
        yield action
        if isinstance(action, Preempt) and action.job.status == RUNNING:
            return
        if isinstance(action, Migrate) and action.job.allocation is not action.allocation:
            return
