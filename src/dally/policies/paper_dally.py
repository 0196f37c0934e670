"""The Dally of the paper: delay scheduling, tuned timers, and leases that go to the most network-sensitive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.trial import Trial
from dally.model import INFINITY, WAITING, Action, Allocation, Job, Preempt, Start
from dally.policies import events
from dally.policies.base import Policy, ranks_before
from dally.policies.delay_timers import Timers
from dally.policies.events import PolicyEvent
from dally.policies.ordering.base import Order
from dally.policies.placement.base import Wakeups
from dally.policies.placement.best_fit import best_fit
from dally.policies.placement.delay import DelayPlacement
from dally.policies.queue import DemandClass, Queue
from dally.policies.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class LongestWaitFirst(Order):
    """Another order, in which of equals the one goes first that has waited longest."""

    def __init__(self, inner: Order) -> None:
        self._inner: Order = inner

    def begin(self, view: View) -> None:
        super().begin(view)
        self._inner.begin(view)

    def key(self, job: Job, now: float) -> float:
        return self._inner.key(job, now)

    def tie(self, job: Job) -> float:
        return job.lost_s


@mypyc_attr(allow_interpreted_subclasses=True)
class PaperDally(Policy):
    """Offers free GPUs and those of ended leases to jobs in order; each job accepts or declines.

    Sharma et al., arXiv 2401.16492, as its authors' code does it. At the end of its lease a gang gives its GPUs
    back and its wait begins at 0: it declines all that it would decline after no wait, even the placement that it
    just had.

    The GPUs of all leases that end at one instant are assigned again together with the free ones, best fit in
    order: a gang that gets its own GPUs back renews, and one that fits better elsewhere moves, at the price of a
    restart. That packing is worth about 5 % of the mean JCT (8 synthetic streams on each of two networks: −4 % and
    −6 %).

    Departures: at equal scores, a waiting gang comes before one whose lease ended, and a job that would accept a
    farther tier never declines a closer one.
    """

    def __init__(self, order: Order, placement: DelayPlacement, lease_s: float) -> None:
        self.order = LongestWaitFirst(order)
        self.ranks: Order = order
        self.placement = placement
        self.lease_s = lease_s
        self.delay_overrides = placement.timers
        self.timers: Timers = placement.timers
        self._delay: DelayPlacement = placement
        self._root: i64 = 0  # the last tier, known from the first pass on
        self._ended: dict[int, Job] = {}  # jobs whose leases ended now, of the pass's tenant
        self._ended_of: dict[int, dict[int, Job]] = {}  # the same by tenant (policies/gate)
        self._wakeups: Wakeups = Wakeups()

    def begin(self, view: View) -> None:
        super().begin(view)
        self.order.begin(view)
        self.placement.begin(view)

    def save(self) -> dict[str, Any]:
        return {"waits": self.timers.samples()}

    def load(self, saved: dict[str, Any]) -> None:
        self.timers.restore([(row[0], row[1], row[2], row[3]) for row in saved["waits"]])

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is None:
            if event.kind == events.PASS_ENDED:
                self.wakeup_s = self._wakeups.next_s(event.now)
            return
        kind = event.kind
        if kind == events.LEASE_ENDED:
            if not job.non_preemptible:
                self._ended_of.setdefault(int(job.tenant), {})[int(job.index)] = job
        elif kind in (events.STOPPED, events.PREEMPTION_FAILED):
            if int(job.tenant) in self._ended_of:
                self._ended_of[int(job.tenant)].pop(int(job.index), None)
        elif kind == events.STARTED:
            self._note_wait(job, event.now)

    def _note_wait(self, job: Job, now: float) -> None:
        if job.placed_s == now and job.tier < self._root:  # it waited: it was not adopted
            self.timers.note(job.tier, job.gpus, now, now - job.lost_s)

    # The pass.

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        self._wakeups.begin_pass(queue.tenant)
        self._ended = self._ended_of.setdefault(int(queue.tenant), {})
        self._root = cluster.root
        if len(queue) == 0 and not self._ended:
            return []
        return self._offers(now, queue, cluster)

    def _offers(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        if self._ended:
            yield from self._deal(now, queue, cluster)
        while True:
            job, tier = self._next(now, queue, cluster)
            if job is None:
                break
            cluster.focus(job)
            allocation = best_fit(cluster, tier, job.gpus, job.group)
            assert allocation is not None
            self.reasons.accepted(job, tier, self._patience_s(job, tier, now, cluster))
            yield Start(job, allocation)
        self._close(now, queue, cluster)

    def _deal(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Deal the GPUs of ended leases out anew: gangs that keep none of theirs stop, then all starts follow."""
        placings = self._placings(now, queue, cluster)
        own = {int(job.index): allocation for job, allocation in placings}
        for index in sorted(self._ended):
            job = self._ended[index]
            held = job.allocation
            if held is None or (index in own and sorted(held.parts()) == sorted(own[index].parts())):
                continue
            self._record_loss(job, placings, now, cluster)
            yield Preempt(job)
        self._ended.clear()
        for job, allocation in placings:
            cluster.focus(job)
            if job.status != WAITING or not _is_free(cluster, allocation):
                continue  # it renews, or some gang could not be preempted
            tier = allocation.tier
            self.reasons.accepted(job, tier, self._patience_s(job, tier, now, cluster))
            yield Start(job, allocation)

    def _placings(self, now: float, queue: Queue, cluster: Cluster) -> list[tuple[Job, Allocation]]:
        """Which jobs take what, best rank first, if all ended leases are released.

        Waiting jobs among them are set aside, so that none is dealt to twice.
        """
        placings: list[tuple[Job, Allocation]] = []
        contenders = self._ranked_ended(now)  # best rank last
        trial = self._without_ended(cluster)
        waiting, tier = self._next(now, queue, cluster)
        while waiting is not None or contenders:
            if waiting is None or (contenders and self._key(contenders[-1], now) < queue.key(waiting)):
                job = contenders.pop()
                cluster.focus(job)
                own_tier = self._delay.offered(cluster, job.gpus, job.group)
                if own_tier < 0 or self._patience_s(job, own_tier, now, cluster) > 0.0:
                    continue  # it declines: its wait begins now
            else:
                job, own_tier = waiting, tier
                queue.take(job)
            cluster.focus(job)
            allocation = best_fit(cluster, own_tier, job.gpus, job.group)
            assert allocation is not None
            trial.take(allocation, job)
            placings.append((job, allocation))
            waiting, tier = self._next(now, queue, cluster)
        trial.undo()
        return placings

    def _record_loss(
        self, loser: Job, placings: list[tuple[Job, Allocation]], now: float, cluster: Cluster
    ) -> None:
        """Record why it stops: too far apart, another job, or a better fit elsewhere."""
        if self._patience_s(loser, loser.tier, now, cluster) > 0.0:
            self.reasons.gave_up(loser)
            return
        for job, allocation in placings:
            if job is loser:
                break  # those after it took what it left
            for machine, gpus in allocation.parts():
                if _gpus_on(loser, machine) > 0 and gpus > _gpus_on(job, machine):
                    self.reasons.lost(loser, job)
                    return
        self.reasons.placed_anew(loser)

    def _patience_s(self, job: Job, tier: i64, now: float, cluster: Cluster) -> float:
        """How long the job must have waited to take that tier, as an operator or its timers have it."""
        patience_s = self._delay.patience_s(cluster, tier, job.gpus, job.group, now, job.signature)
        if patience_s > 0.0 and job.delay_until_s >= 0.0:
            return max(0.0, job.delay_until_s - job.lost_s) if job.delay_until_s > now else 0.0
        return patience_s

    def _key(self, job: Job, now: float) -> float:
        """The rank of one who runs."""
        return -INFINITY if job.prioritized else self.ranks.key(job, now)

    def _without_ended(self, cluster: Cluster) -> Trial:
        """As if all ended leases were released."""
        trial = cluster.trial()
        for job in self._ended.values():
            held = job.allocation
            assert held is not None
            trial.release(held)
        return trial

    def _next(self, now: float, queue: Queue, cluster: Cluster) -> tuple[Job | None, i64]:
        """The best-ranked job that takes what it is offered, and the tier of that."""
        best: Job | None = None
        best_tier: i64 = -1
        for group in queue.classes:
            if group.gpus > cluster.all_free():
                break
            if len(group.heap) == 0:
                continue
            cluster.focus_on(group.signature)
            tier = self._delay.offered(cluster, group.gpus, group.group)
            if tier < 0:
                continue
            patience_s = self._delay.patience_s(cluster, tier, group.gpus, group.group, now, group.signature)
            job = queue.ripeness_of(group).first(patience_s, now)
            if job is None:
                continue
            if best is None or ranks_before(
                queue.key(job), job.lost_s, job.index, queue.key(best), best.lost_s, best.index
            ):
                best = job
                best_tier = tier
        return best, best_tier

    def _ranked_ended(self, now: float) -> list[Job]:
        """The gangs whose leases ended, best rank last; they all began to wait now."""
        rows = [(self._key(job, now), int(job.gpus), int(job.index)) for job in self._ended.values()]
        rows.sort(reverse=True)
        return [self._ended[row[2]] for row in rows]

    def _close(self, now: float, queue: Queue, cluster: Cluster) -> None:
        """Record what is on offer to those left waiting, and set the moment the first of them takes it."""
        for group in queue.classes:
            if len(group.heap) == 0:
                continue
            cluster.focus_on(group.signature)
            tier = self._delay.offered(cluster, group.gpus, group.group)
            self._record_offer(group, tier, now, cluster)
            if tier <= cluster.closest_tier_of(group.gpus, group.group, group.signature):
                continue
            patience_s = self._delay.patience_s(cluster, tier, group.gpus, group.group, now, group.signature)
            for moment_s in (
                queue.ripeness_of(group).oldest_s() + patience_s,
                queue.ripeness_of(group).next_apart_s(now),
                self.timers.changes_s(tier, cluster.root, group.gpus, now),
            ):
                if now < moment_s:
                    self._wakeups.add(moment_s)

    def _record_offer(self, group: DemandClass, tier: i64, now: float, cluster: Cluster) -> None:
        timers_s: vec[float] = vec[float]()
        for above in range(1, cluster.root + 1):
            patience_s = self._delay.patience_s(cluster, above, group.gpus, group.group, now, group.signature)
            timers_s = append(timers_s, patience_s)
        self.reasons.offered(group, 0, tier, timers_s)


def _is_free(cluster: Cluster, allocation: Allocation) -> bool:
    return all(cluster.free_on(machine) >= gpus for machine, gpus in allocation.parts())


def _gpus_on(job: Job, machine: int) -> int:
    """How many GPUs of that machine the job holds."""
    held = job.allocation
    return 0 if held is None else sum(gpus for at, gpus in held.parts() if at == machine)
