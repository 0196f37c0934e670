"""The Dally of the paper: delay scheduling, tuned timers, and leases that go to the most network-sensitive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.trial import Trial
from dally.model import INFINITY, RUNNING, Action, Allocation, Job, Preempt, Start
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
    """Offers GPUs, those of ended leases among them, down the order; each job takes or declines.

    Sharma et al., arXiv 2401.16492, as its authors' code does it. At the end of its lease a gang gives its GPUs
    back and its wait begins at 0: it declines all that it would decline after no wait, even where it just sat.

    Where we depart from it: a gang that would take its own GPUs back holds them until its turn comes, and those
    ahead of it are given free GPUs first if they are as close, then those of the worst-ranked; such a gang comes
    after one of the same score that waits; and no tier is refused by a job that would take a farther one.
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
        self._ended: dict[int, Job] = {}  # whose leases ended now and whose fate is open, of the pass's tenant
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
        if len(queue) == 0 and self._all_at_closest(cluster):
            self._ended.clear()
            return []
        return self._offers(now, queue, cluster)

    def _all_at_closest(self, cluster: Cluster) -> bool:
        """Whether every gang whose lease ended is as close as it can be."""
        return all(job.tier <= cluster.topology.closest_tier(job.gpus, job.group) for job in self._ended.values())

    def _offers(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for leaver in self._leavers(now, cluster):
            self.reasons.gave_up(leaver)
            yield Preempt(leaver)
        contenders = self._ranked_ended(now)  # best rank last
        while True:
            job, tier = self._winner(now, queue, cluster, contenders)
            if job is None:
                break
            if job.status == RUNNING:  # something closer than its own place is on offer to it
                self.reasons.gave_up(job)
                yield Preempt(job)
                continue
            if self._delay.offered(cluster, job.gpus, job.group) == tier:
                allocation = best_fit(cluster, tier, job.gpus, job.group)
            else:
                allocation = self._disturbing_least(cluster, tier, job, contenders)
            assert allocation is not None
            for machine, gpus in allocation.parts():
                while cluster.free_on(machine) < gpus:
                    loser = self._worst_on(machine, contenders)
                    if loser is None:
                        break  # somebody could not be preempted
                    self.reasons.lost(loser, job)
                    yield Preempt(loser)
            if not _is_free(cluster, allocation):
                continue
            self.reasons.accepted(job, tier, self._patience_s(job, tier, now, cluster))
            yield Start(job, allocation)
        self._close(now, queue, cluster)

    def _leavers(self, now: float, cluster: Cluster) -> list[Job]:
        """The gangs whose lease ended where they would not go after no wait, by number."""
        leavers: list[Job] = []
        for index in sorted(self._ended):
            job = self._ended[index]
            if self._patience_s(job, job.tier, now, cluster) > 0.0:
                leavers.append(job)
        return leavers

    def _patience_s(self, job: Job, tier: i64, now: float, cluster: Cluster) -> float:
        """How long the job must have waited to take that tier, as an operator or its timers have it."""
        patience_s = self._delay.patience_s(cluster, tier, job.gpus, job.group, now)
        if patience_s > 0.0 and job.delay_until_s >= 0.0:
            return max(0.0, job.delay_until_s - job.lost_s) if job.delay_until_s > now else 0.0
        return patience_s

    def _key(self, job: Job, now: float) -> float:
        """The rank of one who runs."""
        return -INFINITY if job.prioritized else self.ranks.key(job, now)

    def _winner(self, now: float, queue: Queue, cluster: Cluster, contenders: list[Job]) -> tuple[Job | None, i64]:
        """The next job to start and its tier; those who defend their ended leases against it keep them.

        A running job: one that was to defend its lease and can get closer instead.
        """
        trial = self._without_ended(cluster)
        job, tier = self._next(now, queue, cluster)
        while contenders and (job is None or self._key(contenders[-1], now) < queue.key(job)):
            defender = contenders.pop()
            held = defender.allocation
            if int(defender.index) in self._ended and held is not None and trial is not None:
                if self._can_get_closer(defender, cluster):
                    job = defender
                    break
                del self._ended[int(defender.index)]
                trial.take(held)
                job, tier = self._next(now, queue, cluster)
        if trial is not None:
            trial.undo()
        return job, tier

    def _can_get_closer(self, job: Job, cluster: Cluster) -> bool:
        if job.tier <= cluster.topology.closest_tier(job.gpus, job.group):
            return False
        return self._delay.offered(cluster, job.gpus, job.group) < job.tier

    def _without_ended(self, cluster: Cluster) -> Trial | None:
        """As if all ended leases were released."""
        if not self._ended:
            return None
        trial = cluster.trial()
        for job in self._ended.values():
            held = job.allocation
            assert held is not None
            trial.release(held)
        return trial

    def _disturbing_least(self, cluster: Cluster, tier: i64, job: Job, contenders: list[Job]) -> Allocation | None:
        """A place for the job at that tier that leaves the best-ranked ended leases alone if it can."""
        trial = self._without_ended(cluster)
        assert trial is not None
        for place in range(len(contenders) - 1, -1, -1):
            other = contenders[place]
            held = other.allocation
            if int(other.index) not in self._ended or held is None:
                continue
            trial.take(held)
            if self._delay.offered(cluster, job.gpus, job.group) != tier:
                trial.release(held)
        allocation = best_fit(cluster, tier, job.gpus, job.group)
        trial.undo()
        return allocation

    def _next(self, now: float, queue: Queue, cluster: Cluster) -> tuple[Job | None, i64]:
        """The best-ranked job that takes what it is offered, and the tier of that."""
        best: Job | None = None
        best_tier: i64 = -1
        for group in queue.classes:
            if group.gpus > cluster.free_gpus:
                break
            if len(group.heap) == 0:
                continue
            tier = self._delay.offered(cluster, group.gpus, group.group)
            if tier < 0:
                continue
            patience_s = self._delay.patience_s(cluster, tier, group.gpus, group.group, now)
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
        """Those whose fate is open, best rank last; they all began to wait now."""
        rows = [(self._key(job, now), int(job.gpus), int(job.index)) for job in self._ended.values()]
        rows.sort(reverse=True)
        return [self._ended[row[2]] for row in rows]

    def _worst_on(self, machine: int, contenders: list[Job]) -> Job | None:
        """The worst-ranked gang on that machine whose lease ended, if there is any."""
        for job in contenders:
            if int(job.index) in self._ended and _sits_on(job, machine):
                return job
        return None

    def _close(self, now: float, queue: Queue, cluster: Cluster) -> None:
        """Record what is on offer to those left waiting, and set the moment the first of them takes it."""
        for group in queue.classes:
            if len(group.heap) == 0:
                continue
            tier = self._delay.offered(cluster, group.gpus, group.group)
            self._tell(group, tier, now, cluster)
            if tier <= cluster.topology.closest_tier(group.gpus, group.group):
                continue
            patience_s = self._delay.patience_s(cluster, tier, group.gpus, group.group, now)
            for moment_s in (
                queue.ripeness_of(group).oldest_s() + patience_s,
                queue.ripeness_of(group).next_apart_s(now),
                self.timers.changes_s(tier, cluster.root, group.gpus, now),
            ):
                if now < moment_s:
                    self._wakeups.add(moment_s)

    def _tell(self, group: DemandClass, tier: i64, now: float, cluster: Cluster) -> None:
        timers_s: vec[float] = vec[float]()
        for above in range(1, cluster.root + 1):
            timers_s = append(timers_s, self._delay.patience_s(cluster, above, group.gpus, group.group, now))
        self.reasons.offered(group, 0, tier, timers_s)


def _is_free(cluster: Cluster, allocation: Allocation) -> bool:
    return all(cluster.free_on(machine) >= gpus for machine, gpus in allocation.parts())


def _sits_on(job: Job, machine: i64) -> bool:
    allocation: Allocation | None = job.allocation
    assert allocation is not None
    machines: vec[i64] = allocation.machines
    return machine in machines
