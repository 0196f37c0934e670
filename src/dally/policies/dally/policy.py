"""The flagship policy: what happens in a pass, in order, and which part does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import CANCELLED, INFINITY, RUNNING, WAITING, Action, Costs, Job, Start
from dally.perf.base import SpeedModel
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.dally.context import Context
from dally.policies.dally.delay import PricedDelay
from dally.policies.dally.delay_overrides import JobDelayOverrides
from dally.policies.dally.drain import claimants, drain_for, outweighed
from dally.policies.dally.limits import Limits
from dally.policies.dally.migration import Migration
from dally.policies.dally.reserved_domain import NO_JOB, reserve_domain, tier_with_room
from dally.policies.dally.resizing import Resizing
from dally.policies.dally.room import as_long_as_they_succeed, evict, evict_any, evict_older
from dally.policies.dally.side import Side
from dally.policies.dally.starvation import StarvationBound
from dally.policies.events import PolicyEvent
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.placement.best_fit import best_fit
from dally.policies.queue import Queue
from dally.policies.view import View

MOST_ROOMS: Final = 12  # gangs for which one pass makes room on a large cluster; the next goes on
AT_LEAST_S: Final = 30.0  # from one pass to the next that is for a young job
SOON_S: Final = 1.0  # when that is, unless something happens before


@mypyc_attr(allow_interpreted_subclasses=True)
class Dally(Policy):
    """Gangs by Gittins rank, each at its closest tier unless farther is almost free of charge.

    To clear a domain, it migrates other jobs before it preempts any. A running gang migrates to a faster placement
    if that pays for its restart. No job waits for ever: a job is served first once its patience has ended.
    """

    def __init__(self, order: GittinsOrder, limits: Limits) -> None:
        overrides = JobDelayOverrides()
        self.order = order
        self.delay_overrides = overrides
        self.migrates = limits.migration
        self.ranks: GittinsOrder = order
        self.limits: Limits = limits
        self._drains: bool = limits.idle_worth < INFINITY and limits.preemption
        self._overrides: JobDelayOverrides = overrides
        self._tried: list[Job] = []  # in this pass, in vain
        self._rooms_made: i64 = 0  # gangs for which it has made room
        self._seek_moves: bool = False  # GPUs came back, or the network is another one
        self._changes: int = 0  # of whatever a pass goes by
        self._equip(View(SpeedModel(), Costs()))  # until a run begins

    def _equip(self, view: View) -> None:
        """The parts that ask the view."""
        self._context: Context = Context(self.limits, self.ranks, view)
        self._protected: dict[int, tuple[int, float]] = {}
        self._sides: list[Side] = []  # by tenant (policies/gate)
        self._side: Side = self._side_of(0)  # of the tenant that the pass is for
        self._serve_tenant(0)
        self._delay: PricedDelay = PricedDelay(self._context, self._overrides)
        self._migration: Migration = Migration(self._context)
        self._resizing: Resizing = Resizing(self._context)

    def _side_of(self, tenant: i64) -> Side:
        while len(self._sides) <= tenant:
            self._sides.append(Side(self.limits, self._context.churn, self._protected))
        return self._sides[tenant]

    def _serve_tenant(self, tenant: i64) -> None:
        """The pass is for that tenant."""
        side = self._side_of(tenant)
        if side is not self._side or side.ledger is not self._context.ledger:
            self._side = side
            self._context.ledger = side.ledger
            self._context.movable = side.movable
            self._context.reserved = side.reserved
            side.movable.forget()

    @property
    def starvation(self) -> StarvationBound:
        """How long the tenant's jobs wait at most."""
        return self._side.starvation

    def begin(self, view: View) -> None:
        super().begin(view)
        self.ranks.begin(view)
        self._equip(view)

    def save(self) -> dict[str, Any]:
        return self.ranks.saved()

    def load(self, saved: dict[str, Any]) -> None:
        self.ranks.restore(saved)

    # What happens to jobs and machines.

    def on(self, event: PolicyEvent) -> None:
        kind = event.kind
        job = event.job
        if job is not None:
            self._on_job(kind, job, event.now)
        elif kind == events.PASS_ENDED:
            if len(self._sides) > 1:
                self._set_wakeup(event.now)
        elif kind != events.UNSCHEDULABLE:
            self._changes += 1
            if kind == events.CAPACITY_CHANGED:
                self._capacity_changed()
            elif kind == events.MACHINE_REPAIRED:
                self._seek_moves = True
            elif kind == events.NETWORK_CHANGED:
                self._seek_moves = True
                self.ranks.forget_ranks()
                self._migration.losses.look_again(self._context.prices)

    def _on_job(self, kind: i64, job: Job, now: float) -> None:
        if kind == events.RERATED:
            self.ranks.rerated(job, now)
            self._migration.losses.note(job, self._context.prices)
            return
        if kind == events.FINISHED:
            self.ranks.finished(job, now)
            self._forget(job)
            return
        self._changes += 1
        if kind == events.REPORTED:
            self.ranks.reported(job, now)
        elif kind == events.MEASURED:
            self.ranks.remeasured(job, now)
            self._context.retries.forget(job)
            self._seek_moves = True
        elif kind == events.QUEUED:
            self.ranks.queued(job, now)
            self._resizing.came(job)
            self._waits(job)
        elif kind == events.STARTED:
            self._started(job, now)
        elif kind == events.STOPPED:
            self._stopped(job, now)
        elif kind == events.WITHDRAWN:
            self._context.retries.forget(job)
            self.ranks.withdrawn(job, now)
            self._waits_no_more(job)
            if job.status == CANCELLED:
                self._forget(job)
        elif kind == events.OVERRIDDEN:
            self._context.retries.forget(job)
            if job.status == WAITING:
                self._waits(job)
            elif self._side_of(job.tenant).ledger.holds(job):
                self._side_of(job.tenant).ledger.rerank(job, self._rank(job, now))
        elif kind == events.PREEMPTIBILITY:
            self._side_of(job.tenant).ledger.remove(job)
            self._enter(job, now)
            self._context.retries.forget(job)
            self._capacity_changed()  # others may gain or lose by it
        elif kind == events.PREEMPTION_FAILED:
            self._stopped(job, now)
            self._started(job, now)

    def _waits(self, job: Job) -> None:
        side = self._side_of(job.tenant)
        side.starvation.waits(job)
        if self._drains:
            side.credit.waits(job)
        side.probes.waits(job)
        self._overrides.waits(job)

    def _waits_no_more(self, job: Job) -> None:
        side = self._side_of(job.tenant)
        side.starvation.leaves(job)
        if self._drains:
            side.credit.leaves(job)
        side.probes.leaves(job)
        self._overrides.leaves(job)

    def _forget(self, job: Job) -> None:
        """The job is gone for good."""
        side = self._side_of(job.tenant)
        side.starvation.forget(job)
        side.credit.forget(job)
        side.probes.forget(job)
        self._context.churn.forget(job)

    def _rank(self, job: Job, now: float) -> float:
        """Against others; none takes from a prioritized job."""
        return -INFINITY if job.prioritized else self.ranks.key(job, now)

    def _started(self, job: Job, now: float) -> None:
        self.ranks.started(job, now)
        self._waits_no_more(job)
        self._enter(job, now)
        self._resizing.started(job)
        self._migration.losses.note(job, self._context.prices)
        self._moved(job)

    def _stopped(self, job: Job, now: float) -> None:
        self._seek_moves = True
        self.ranks.stopped(job, now)
        self._side_of(job.tenant).ledger.remove(job)
        self._migration.losses.remove(job)
        self._resizing.stopped(job)
        self._moved(job)

    def _moved(self, job: Job) -> None:
        """The job started or stopped: what was found out before is out of date."""
        self._context.movable.forget()
        self._context.retries.forget(job)
        self._context.retries.changed()

    def _enter(self, job: Job, now: float) -> None:
        """Into the ledger of jobs that may be preempted or moved, unless it is non-preemptible."""
        if not job.non_preemptible:
            side = self._side_of(job.tenant)
            until_s = max(job.since_s + self._context.hold_s(job), side.starvation.protected_until_s(job))
            until_s = max(until_s, side.probes.protected_until_s(job))
            side.ledger.add(job, self._rank(job, now), max(until_s, side.credit.protected_until_s(job)))

    def _capacity_changed(self) -> None:
        self._seek_moves = True
        self._context.movable.forget()
        self._context.retries.changed()

    # The pass.

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        if self._overrides.changed:
            self._overrides.changed = False
            self._changes += 1
        self._serve_tenant(queue.tenant)
        side = self._side
        if side.seen == self._changes and now < side.due_s and queue.shown == side.shown:
            return []  # nothing happened: what was decided stands
        context = self._context
        self.ranks.set_gpus(float(cluster.topology.total_gpus()), self.limits.finish_share)
        for moved in self.ranks.moved(now):
            job = moved.job
            if job.status == RUNNING:
                self._side_of(job.tenant).ledger.rerank(job, -INFINITY if job.prioritized else moved.rank)
            elif queue.holds(job):  # not one on hold
                queue.rerank(job, moved.rank, 0.0)
        side.starvation.take_to_last(self.ranks.longest_s)
        context.reasons = self.reasons  # which may be a gate's
        context.prices.begin_pass()
        self._rooms_made = 0
        context.retries.begin_pass(cluster.topology.machine_count(), len(cluster.running))
        context.churn.begin_pass(now, cluster.topology.total_gpus())
        running = cluster.topology.total_gpus() - cluster.all_free()
        slow = self._migration.losses.slower_than(self.limits.most_slowdown, running)
        self._delay.scatters = self.limits.scatter and not slow
        return self._pass(now, queue, cluster)

    def _pass(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        young = self._due_probes(now, queue, cluster)

        # 1. Domains of wide gangs are drained that idle GPUs have paid for.
        if self._drains:
            yield from self._drain(now, len(young) > 0, queue, cluster)

        # 2. Running gangs move to faster places.
        if self._seek_moves and self.limits.migration:
            yield from self._migration.moves(now, cluster)
        self._seek_moves = False

        # 3. Jobs that have waited too long come first.
        yield from self._end_starvation(now, queue, cluster)

        # 4. Young jobs that have waited many times as long as they have run get a short turn.
        yield from self._probe(young, now, cluster)

        # 5. By rank: better-ranked elastic jobs grow; a free place, or room made at the closest tier.
        yield from self._resizing.grow_first(queue, now, cluster)
        while True:
            best = queue.best()
            if best is None:
                break
            yield from as_long_as_they_succeed(self._serve(best, now, cluster))
            if best.status != RUNNING:
                queue.close(best)
        queue.reopen()

        # 6. Jobs whose delay an operator has ended take any place.
        if self._overrides.anything():
            for job in self._overrides.takers(queue, now):
                place = self._delay.any_place(job, cluster)
                if place is not None:
                    yield Start(job, place)

        # 7. What is left goes to the first of every demand that takes it.
        for group in list(queue.classes):
            while len(group.heap) > 0:
                first = group.job(group.heap.first())
                place = self._delay.leftover(first, group, now, cluster)
                if place is None:
                    break
                yield Start(first, place)

        # 8. Elastic jobs grow into what stays idle.
        yield from self._resizing.grow(now, queue.waiting[queue.tenant] > 0, cluster)
        self._end_pass(now, queue, cluster)

    def _end_pass(self, now: float, queue: Queue, cluster: Cluster) -> None:
        for job in self._tried:
            if job.status != RUNNING:
                self._context.retries.failed(job, now)
        self._tried.clear()
        side = self._side
        if self._drains:
            cluster.focus(None)
            side.credit.end_pass(queue, cluster)
        side.seen = self._changes
        side.shown = queue.shown
        side.due_s = INFINITY
        if queue.waiting[queue.tenant] > 0 and len(cluster.running) > 0:
            patience_s = side.starvation.next_s()
            limits = self.limits
            side.due_s = now + limits.wake_s
            if now < patience_s < side.due_s:
                side.due_s = patience_s
            if limits.probe_again_s < limits.wake_s:
                side.due_s = min(side.due_s, max(now + AT_LEAST_S, side.probes.next_s()))
            if self._has_made_most():
                side.due_s = min(side.due_s, now + SOON_S)
        if self._overrides.anything():  # where no job runs, too: one with an override takes no other place before
            side.due_s = min(side.due_s, self._overrides.next_s(queue, now))
        side.due_s = min(side.due_s, self._resizing.next_s(now, cluster))
        self.wakeup_s = side.due_s

    def _set_wakeup(self, now: float) -> None:
        """When the next pass is due for any tenant."""
        self.wakeup_s = INFINITY
        for side in self._sides:
            if now < side.due_s < self.wakeup_s:
                self.wakeup_s = side.due_s

    def _drain(self, now: float, young: bool, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Drain domains that idle GPUs have paid for; those drained before are lost where it is others' turn.

        `young`: somebody is due for a short turn.
        """
        side, context = self._side, self._context
        side.credit.begin_pass(now, cluster)
        for job in outweighed(now, young, queue, cluster, side.credit, context):
            side.ledger.remove(job)
            self._enter(job, now)
        if not side.credit.any_gang_waits():
            return
        for job in claimants(now, queue, cluster, side.credit, context):
            near = cluster.topology.closest_tier(job.gpus, job.group)
            if not context.churn.allows() or context.prices.spent():
                break
            if cluster.closest_tier(job) != near:
                continue  # its constraints keep it farther apart, or out of the cluster
            cluster.focus(job)
            if job.status != WAITING:
                continue
            if self._delay.first_choice(job, near, False, cluster) is not None:
                continue
            drain = drain_for(job, now, cluster, side.credit, context)
            if drain is None:
                continue
            actions = evict(job, near, drain.eviction, drain.paid_gpu_s, now, cluster, context)
            side.credit.pay(drain.paid_gpu_s)
            side.credit.keep(job, now + drain.residence_s)
            yield from as_long_as_they_succeed(actions)
            if job.status != RUNNING:
                side.credit.forget(job)

    def _end_starvation(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Serve jobs whose patience has ended; the first that cannot be served gets a domain reserved."""
        starvation, reserved, gpus = self.starvation, self._side.reserved, cluster.topology.total_gpus()
        while True:
            job = starvation.first(now)
            if job is None or not queue.shows(job) or not starvation.room_for(job, gpus, now):
                reserved.release()
                self.reasons.reserved(None, INFINITY)
                return
            near = cluster.closest_tier(job)
            if near < 0:  # it fits nowhere, ever
                starvation.leaves(job)
                continue
            cluster.focus(job)
            near = tier_with_room(job, near, cluster)
            before = reserved.domain if reserved.job == job.index else NO_JOB
            reserved.release()
            actions = self._serve_first(job, near, now, cluster)
            if not actions and self._end_probes(now):
                actions = self._serve_first(job, near, now, cluster)
            if not actions:
                if before != NO_JOB:
                    reserved.reserve(job, near, before)
                early = starvation.is_early(job, now)
                preempts = self.limits.preemption and cluster.counts_suffice(job) and not early
                ready_s = reserve_domain(job, near, preempts, cluster, self._context.ledger, reserved)
                self.reasons.reserved(job, ready_s)
                return
            starvation.protect(job, now + self.limits.stretch_s)
            yield from as_long_as_they_succeed(actions)
            if job.status != RUNNING:
                starvation.forget(job)
                return

    def _due_probes(self, now: float, queue: Queue, cluster: Cluster) -> list[Job]:
        """Young jobs that have waited too long for what they have had and may have a turn; others are put off."""
        probes, limits = self._side.probes, self.limits
        jobs: list[Job] = []
        if probes.next_s() > now:
            return jobs
        total = cluster.topology.total_gpus()
        for job in probes.due(now):
            if self.ranks.share_ending(job, limits.probe_s) < limits.probe_odds:  # it may be so for long
                probes.put_off(job, now + max(limits.wake_s, 0.5 * (now - job.submit_s)))
            elif cluster.closest_tier(job) >= 0 and queue.shows(job) and probes.room_for(job, total, now):
                jobs.append(job)
            else:
                probes.put_off(job, now + min(limits.probe_again_s, limits.wake_s))
        return jobs

    def _probe(self, jobs: list[Job], now: float, cluster: Cluster) -> Iterator[Action]:
        """Start young jobs that are due; those without room wait on."""
        probes, limits = self._side.probes, self.limits
        for job in jobs:
            if job.status != WAITING:  # it was served for another reason
                continue
            actions: list[Action] = []
            if probes.room_for(job, cluster.topology.total_gpus(), now):
                cluster.focus(job)
                near = tier_with_room(job, cluster.closest_tier(job), cluster)
                actions = self._serve_probe(job, near, now, cluster)
            if actions:
                lasts_s = (limits.probe_s - job.work_s) * self._context.prices.best(job)
                probes.protect(job, now + self._context.prices.restart_s(job) + lasts_s)
                yield from as_long_as_they_succeed(actions)
            if job.status != RUNNING:
                probes.forget(job)
                probes.put_off(job, now + min(limits.probe_again_s, limits.wake_s))

    def _end_probes(self, now: float) -> bool:
        """Young jobs keep their GPUs for their hold only, as anybody; whether one kept them for longer."""
        ledger = self._side.ledger
        ended = False
        for job in self._side.probes.end_all():
            if ledger.holds(job):
                ledger.remove(job)
                self._enter(job, now)
                ended = True
        return ended

    def _serve_probe(self, job: Job, near: i64, now: float, cluster: Cluster) -> list[Action]:
        """What makes a young job start: a free place at its closest tier, or jobs preempted that are not young."""
        context = self._context
        place = self._delay.first_choice(job, near, False, cluster)
        if place is not None:
            return [Start(job, place)]
        if not self.limits.preemption or not context.churn.allows() or context.prices.spent():
            return []
        wide = float(job.gpus) > self.limits.probe_share * float(cluster.topology.total_gpus())
        return evict_older(job, near, 0.0 if wide else self.limits.probe_s, now, cluster, context)

    def _serve_first(self, job: Job, near: i64, now: float, cluster: Cluster) -> list[Action]:
        """What makes a job start at its closest tier whatever its rank; [] if nothing does yet."""
        cluster.focus(job)
        for tier in range(near + 1):
            place = best_fit(cluster, tier, job.gpus, job.group)
            if place is not None:
                return [Start(job, place)]
        if not cluster.counts_suffice(job) or not self.limits.preemption:
            return []
        return evict_any(job, near, self.starvation.is_early(job, now), now, cluster, self._context)

    def _serve(self, job: Job, now: float, cluster: Cluster) -> list[Action]:
        """What makes the job start: a free place, others moved out of its way, or preempted; [] if nothing does."""
        context = self._context
        cluster.focus(job)
        near = cluster.closest_tier(job)
        if near < 0:  # it fits nowhere, ever
            return []
        due = context.retries.is_due(job, now)
        place = self._delay.first_choice(job, near, due, cluster)
        if place is not None:
            return [Start(job, self._resizing.or_larger(job, place, now, cluster))]
        if not due or context.prices.spent() or self._has_made_most():
            return []
        actions = self._resizing.make_room(job, near, self._rank(job, now), now, cluster)
        if actions:
            self._rooms_made += 1
        else:
            self._tried.append(job)
        return actions

    def _has_made_most(self) -> bool:
        """Whether this pass has made room for as many as it may: after ranks changed hundreds may be due."""
        return self._rooms_made >= MOST_ROOMS and self._context.retries.large()
