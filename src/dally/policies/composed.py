"""A policy put together from an order, a placement and a preemption rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, RUNNING, Action, Allocation, Job, Preempt, Start
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.events import PolicyEvent
from dally.policies.ordering.base import Order
from dally.policies.placement.base import Placement
from dally.policies.preemption.base import Preemption
from dally.policies.queue import Queue
from dally.policies.victims import Weighing
from dally.policies.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class ComposedPolicy(Policy):
    """Offers GPUs in order; later jobs may start where earlier ones do not fit, unless the head blocks them."""

    def __init__(
        self, order: Order, placement: Placement, preemption: Preemption, head_blocks: bool = False
    ) -> None:
        self.order = order
        self.placement = placement
        self.predictor = order.predictor
        self.lease_s = preemption.lease_s
        self.preemption: Preemption = preemption
        self.head_blocks: bool = head_blocks
        self._spared: list[Job] = []  # in this pass: who stays, and whom an operator put first
        self._waiting: bool = False  # whether somebody was left waiting by the latest pass

    def begin(self, view: View) -> None:
        super().begin(view)
        self.order.begin(view)
        self.placement.begin(view)
        self.preemption.begin(view)

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is not None:
            self._on_job(event.kind, job, event.now)
        elif event.kind == events.PASS_ENDED:
            self._set_wakeup(event.now)

    def _on_job(self, kind: i64, job: Job, now: float) -> None:
        """Hand on what happened to the parts that it concerns."""
        if kind == events.RERATED:
            self.order.rerated(job, now)
        elif kind == events.QUEUED:
            self.order.queued(job, now)
            self.preemption.queued(job, now)
        elif kind == events.STARTED:
            self.order.started(job, now)
            self.preemption.started(job, self.order, now)
        elif kind == events.STOPPED:
            self.order.stopped(job, now)
            self.preemption.stopped(job)
        elif kind == events.FINISHED:
            self.order.finished(job, now)
        elif kind == events.LEASE_ENDED:
            self.preemption.lease_ended(job)
        elif kind == events.WITHDRAWN:
            self.order.withdrawn(job, now)
        elif kind == events.PREEMPTION_FAILED:
            self._on_job(events.STOPPED, job, now)
            self._on_job(events.STARTED, job, now)

    def _set_wakeup(self, now: float) -> None:
        by_rank = self.order.wakeup_s()
        by_offer = self.placement.wakeup_s(now)
        by_round = self.preemption.wakeup_s(now, self._waiting)
        if by_round < INFINITY:
            self.reasons.next_round(by_round)
        self.wakeup_s = min(by_rank, min(by_offer, by_round))

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        for job in self.order.changed(now, cluster):
            if job.status == RUNNING:
                self.preemption.reranked(job, self.order, now)
            else:
                queue.rerank(job, self.order.key(job, now), self.order.tie(job))
        self._waiting = len(queue) > 0
        self.placement.begin_pass(queue.tenant)
        self.preemption.begin_pass(self.order, now, queue.tenant)
        if not self._waiting:
            self.preemption.end_pass()
            return []
        return self._offer(now, queue, cluster)

    def _offer(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        if self.preemption.worst(self.order, now) is None:
            return self._offer_free(now, queue, cluster)
        if cluster.feasibility is not None:
            return self._offer_each(now, queue, cluster)
        return self._offer_all(now, queue, cluster)

    def _offer_free(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Nobody can be preempted: start whoever fits, in order."""
        while True:
            job = queue.best(INFINITY if self.head_blocks else float(cluster.all_free()))
            if job is None:
                return
            allocation = self.placement.place(job, now, cluster)
            if allocation is not None:
                self._record_accepted(job, allocation, now, cluster)
                yield Start(job, allocation)
            elif self.head_blocks:
                self.reasons.blocks(job)
                return
            else:
                self._record_declined(job, now, queue, cluster)
                queue.close(job)

    def _record_accepted(self, job: Job, allocation: Allocation, now: float, cluster: Cluster) -> None:
        if self.placement.has_delays:
            delay_s = self.placement.delay_s(job, allocation.tier, now, cluster)
            self.reasons.accepted(job, allocation.tier, delay_s)

    def _record_declined(self, job: Job, now: float, queue: Queue, cluster: Cluster) -> None:
        """There are enough free GPUs, but not where the job takes them."""
        cluster.focus(job)
        if cluster.free_gpus < job.gpus:
            return
        timers_s: vec[float] = vec[float]()
        for tier in range(1, cluster.root + 1):
            timers_s = append(timers_s, self.placement.delay_s(job, tier, now, cluster))
        tier = self.placement.offered(cluster, job.gpus, job.group)
        if self.placement.has_delays:
            self.reasons.offered_to(job, queue.class_of(job), tier, timers_s)
        else:
            self.reasons.offered(queue.class_of(job), job.kind, tier, timers_s)

    def _offer_each(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Offer free GPUs in order; for a job that they do not fit, preempt jobs ranked below it, if that helps."""
        while True:
            job = queue.best()
            if job is None:
                break
            allocation = self.placement.place(job, now, cluster)
            if allocation is None:
                losers = self._losers(job, queue.key(job), now, cluster)
                for loser in losers:
                    self.reasons.lost(loser, job)
                    yield Preempt(loser)
                if losers:
                    allocation = self.placement.place(job, now, cluster)
            if allocation is not None:
                yield Start(job, allocation)
            elif self.head_blocks:
                self.reasons.blocks(job)
                break
            else:
                self._record_declined(job, now, queue, cluster)
                queue.close(job)
        self._end_preemption(now)

    def _losers(self, job: Job, key: float, now: float, cluster: Cluster) -> list[Job]:
        """The jobs to preempt for the job where jobs have constraints; none if that would not help."""
        tier = self.placement.widest(job, cluster)
        if tier < 0:
            return []
        weighing = Weighing(job, tier, cluster)
        weighed: list[Job] = []
        while weighing.domain < 0:
            worst = self._worst(now)
            if worst is None or self.order.key(worst, now) <= key:
                break
            self.preemption.set_aside(worst)
            weighed.append(worst)
            weighing.add(worst)
        losers = weighing.losers()
        for other in reversed(weighed):
            self.preemption.keep(other, self.order, now)
        return losers

    def _offer_all(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Share out free and preemptible GPUs as if all were free, but leave winners where they are.

        Running jobs are weighed worst-ranked first and only as many as the waiting ones need: the
        outcome is that of walking all jobs in order and keeping each that fits, at less cost. Nobody is
        preempted for a gang that comes in groups: enough GPUs need not mean a place for it.
        """
        chosen: list[Job] = []
        weighed: list[Job] = []  # running jobs set aside, best-ranked last
        losers: list[Job] = []
        room = cluster.free_gpus
        while True:
            job = queue.best()
            if job is None:
                break
            room = self._settle(weighed, losers, chosen, room, queue.key(job), now)
            while room < job.gpus and job.group == 1:
                worst = self._worst(now)
                # On a tie the running job stays: moving it would gain nothing.
                if worst is None or self.order.key(worst, now) <= queue.key(job):
                    break
                self.preemption.set_aside(worst)
                weighed.append(worst)
                room += worst.gpus
            if room >= job.gpus:
                room -= job.gpus
                queue.take(job)
                chosen.append(job)
            elif self.head_blocks:
                self.reasons.blocks(job)
                break
            else:
                queue.close(job)
        self._settle(weighed, losers, chosen, room, INFINITY, now)
        for job in losers:
            yield Preempt(job)
        for job in chosen:
            allocation = self.placement.place(job, now, cluster)
            if allocation is not None:
                yield Start(job, allocation)
        self._end_preemption(now)

    def _worst(self, now: float) -> Job | None:
        """The worst-ranked running job that may be preempted; not one that stays, or that an operator put first."""
        while True:
            worst = self.preemption.worst(self.order, now)
            if worst is None or not (worst.prioritized or worst.non_preemptible):
                return worst
            self.preemption.set_aside(worst)
            self._spared.append(worst)

    def _end_preemption(self, now: float) -> None:
        for job in reversed(self._spared):
            self.preemption.keep(job, self.order, now)
        self._spared.clear()
        self.preemption.end_pass()

    def _settle(
        self, weighed: list[Job], losers: list[Job], chosen: list[Job], room: i64, key: float, now: float
    ) -> i64:
        """Decide the fate of weighed jobs ranked at or ahead of `key`; returns the room left."""
        while weighed and (key == INFINITY or self.order.key(weighed[-1], now) <= key):
            job = weighed.pop()
            if job.gpus <= room:
                room -= job.gpus
                self.preemption.keep(job, self.order, now)
            else:
                losers.append(job)
                self.reasons.lost(job, chosen[-1])
        return room
