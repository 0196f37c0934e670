"""The state of a cluster at work. The only place where jobs, queue and capacity change."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.slots import gang_sizes
from dally.engine.consent import Consent
from dally.engine.degradations import degraded
from dally.engine.draws import jitter_s
from dally.engine.log import EventLog
from dally.engine.rates import advance, begin, end, roll_back, save
from dally.engine.signing import hold_unschedulable, sign
from dally.engine.sizing import hold, note_move, pause_s
from dally.heap import IndexedHeap
from dally.model import (
    ADOPT,
    CANCEL,
    CANCELLED,
    DEGRADE,
    EVICT,
    FAIL,
    FINISH,
    FINISHED,
    HELD,
    HOLD,
    INFINITY,
    LEASE,
    MEASURE,
    MIGRATE_FAILED,
    NETWORK,
    NEVER,
    PENDING,
    PREEMPT,
    PREEMPT_FAILED,
    RELEASE,
    RENEW,
    REPAIR,
    REPORT,
    RUNNING,
    START,
    START_FAILED,
    SUBMIT,
    TIMER,
    WAITING,
    WAITS,
    Action,
    Allocation,
    Costs,
    Event,
    Job,
    Migrate,
    Preempt,
    Start,
)
from dally.perf.base import Speed, SpeedModel
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.events import PolicyEvent
from dally.policies.ordering.base import Order
from dally.policies.placement.base import Placement
from dally.policies.prediction.base import Predictor
from dally.policies.queue import Queue
from dally.policies.view import View

SAMPLE_EVERY_S: Final = 3600.0  # between two samples of the slots
RETRY_S: Final = 30.0  # after this, if nothing happens before, a job whose start failed is offered GPUs again


@mypyc_attr(allow_interpreted_subclasses=True)
class State:
    """Jobs, queue, capacity and leases. No clock and no durations: that a job ends is an event like any other."""

    __slots__ = (
        "_event", "_order", "_placement", "_predictor", "_suspend_s", "changed", "checkpoint_every_s",
        "cluster", "consent", "costs", "ended", "finished", "lease_s", "leases", "log", "policy", "queue",
        "refused", "sample_due_s", "sample_every_s", "sample_from_s", "sample_sizes", "speed", "view",
        "wakeup_s",
    )  # fmt: skip

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        speed: SpeedModel,
        costs: Costs,
        sample_every_s: float = SAMPLE_EVERY_S,
    ) -> None:
        assert 0.0 < sample_every_s < INFINITY
        self.cluster: Cluster = cluster
        self.policy: Policy = policy
        self.speed: SpeedModel = speed
        self.costs: Costs = costs
        self.checkpoint_every_s: float = costs.checkpoint_every_s
        self.log: EventLog = EventLog()
        self.leases: IndexedHeap = IndexedHeap()  # lease ends, by job index
        self.wakeup_s: float = INFINITY  # when the policy asked to be called, at the latest
        self.ended: list[Job] = []  # leases that ended in this cycle
        self.refused: list[Job] = []  # jobs whose start failed in this cycle
        self.changed: list[Job] = []  # jobs that were placed, changed speed or stopped in this cycle
        self.finished: i64 = 0  # jobs that will not come back: finished or cancelled
        self.sample_every_s: float = sample_every_s
        self.sample_from_s: float = 0.0  # the first cycle
        self.sample_due_s: float = -INFINITY
        self.sample_sizes: list[int] = gang_sizes(cluster)
        self.consent: Consent | None = None  # who may be preempted or moved; None: everybody
        self.view: View = View(speed, costs)
        policy.begin(self.view)
        own: Any = policy  # a class in plain Python may state these in its body, which only plain Python sees
        self.queue: Queue = own.queue if own.queue is not None else Queue()
        self.queue.cluster = cluster
        self.lease_s: float = own.lease_s
        self._suspend_s: float = own.suspend_s
        self._order: Order = own.order
        self._placement: Placement = own.placement
        self._predictor: Predictor = own.predictor
        self._event: PolicyEvent = PolicyEvent()

    # What happens to us.

    def begin_cycle(self, events: list[Event], now: float) -> list[Event]:
        """The events and those we know of ourselves: leases that end, and the call the policy asked for."""
        self.changed.clear()
        self.cluster.advance(now)
        own: list[Event] = []
        due = self.leases
        while len(due) > 0 and due.key(due.first()) <= now:
            own.append(Event(LEASE, self.cluster.running[int(due.pop())]))
        if self.wakeup_s <= now:
            own.append(Event(TIMER))
        return events + own if own else events

    def happen(self, event: Event, now: float) -> None:
        """Take note of one event. One that has been overtaken by another, as a cancelled job's end, is void."""
        kind = event.kind
        job = event.job
        if job is None:
            if kind == FAIL:
                self._fail(event.machine, now)
            elif kind == REPAIR:
                self.cluster.repair(event.machine)
                self.notify(events.MACHINE_REPAIRED, now, event.machine)
                self.log.add(now, REPAIR, -1, event.machine, None)
            elif kind == DEGRADE:
                self._rerate(degraded(self.speed, self.cluster, event.machine, event.share), now)
            elif kind == NETWORK:
                self.log.add(now, NETWORK, -1, -1, None)
                self._rerate(self.speed.rescaled(event.share), now)
                self.notify(events.NETWORK_CHANGED, now)
            else:
                self.log.add(now, TIMER, -1, -1, None)
        elif kind == SUBMIT:
            self._submit(job, now)
        elif kind == FINISH:
            if job.status == RUNNING:
                self._finish(job, now)
        elif kind == LEASE:
            if job.status == RUNNING:
                self.ended.append(job)
                self._notify(events.LEASE_ENDED, job, now)
        elif kind == CANCEL:
            self._cancel(job, now)
        elif kind == HOLD:
            self.hold(job, now)
        elif kind == RELEASE:
            if job.status == HELD:
                self._enqueue(job, RELEASE, now)
        elif kind == EVICT:
            if job.status == RUNNING:
                self._evict(job, now, event.reason)
        elif kind == REPORT:
            self._notify(events.REPORTED, job, now)
        elif kind == MEASURE:
            changes = self.speed.measured(job, event.step_s)
            self._rerate(changes, now)
            if changes:
                self._notify(events.MEASURED, job, now)
        elif kind == ADOPT:
            assert event.allocation is not None
            self._observed_at(job, event.allocation, now)
        else:
            assert kind == START_FAILED
            self._start_failed(job, event.reason, now)

    def _submit(self, job: Job, now: float) -> None:
        if job.status == CANCELLED:
            return  # before it came
        assert job.status == PENDING
        job.tenant = 0  # unless a gate knows better
        job.number = job.index
        job.kind = self._placement.kind(job)
        job.predicted_s = self._predictor.predict_s(job, now)
        self._enqueue(job, SUBMIT, now)

    def _finish(self, job: Job, now: float) -> None:
        self._release(job, now)
        if job.duration_s < 0.0:  # nobody knew until now
            job.duration_s = job.work_s
        job.work_s, job.finish_s = job.duration_s, now
        self._leave(job, FINISHED, FINISH, now)
        self._notify(events.FINISHED, job, now)

    def _leave(self, job: Job, status: i64, kind: i64, now: float) -> None:
        """The job will not come back."""
        job.status = status
        self.finished += 1
        self.queue.forget(job)
        self.speed.forget(job)
        self.log.add(now, kind, job.index, -1, None)

    def _fail(self, machine: i64, now: float) -> None:
        self.log.add(now, FAIL, -1, machine, None)
        for job in list(self.cluster.jobs_on[machine]):
            self._evict(job, now)
        self.cluster.fail(machine)
        self.notify(events.MACHINE_FAILED, now, machine)

    def _evict(self, job: Job, now: float, reason: str = "") -> None:
        """The job lost its GPUs, and what it did since its latest checkpoint; it waits again."""
        self._release(job, now)
        if reason:
            self.log.reasons[len(self.log)] = reason
        if job.unsaved or job.checkpoints_s(self.checkpoint_every_s) > 0.0:
            roll_back(job)
        self._lose(job, EVICT, self._restart_s(job), now)

    def _cancel(self, job: Job, now: float) -> None:
        """The job ends here, wherever it is; one that was on hold or had not come yet is nobody's to withdraw."""
        before = job.status
        if before in (FINISHED, CANCELLED):
            return
        if before == RUNNING:
            self._release(job, now)
        elif before == WAITING:
            self.queue.remove(job)
        self._leave(job, CANCELLED, CANCEL, now)
        if before != PENDING:
            self._notify(events.WITHDRAWN, job, now)

    def hold(self, job: Job, now: float) -> None:
        """A waiting job is not offered GPUs; how long it has waited goes on counting."""
        if job.status == WAITING:
            self.queue.remove(job)
            job.status = HELD
            self.log.add(now, HOLD, job.index, -1, None)
            self._notify(events.WITHDRAWN, job, now)

    def override(self, job: Job, prioritized: bool, delay_until_s: float, now: float) -> None:
        """An operator's overrides: whether the job comes first, and until when it declines farther places."""
        if prioritized == job.prioritized and delay_until_s == job.delay_until_s:
            return
        job.prioritized, job.delay_until_s = prioritized, delay_until_s
        if job.status == WAITING:
            self.queue.rerank(job, self._order.key(job, now), self._order.tie(job))
        if job.status != PENDING:
            self._notify(events.OVERRIDDEN, job, now)

    def set_non_preemptible(self, job: Job, non_preemptible: bool, now: float) -> None:
        """Whether the backend can preempt the job while it runs, as far as is known from now on."""
        if self.consent is not None:
            non_preemptible = self.consent.refused_by_backend(job, non_preemptible)
        self._set_preemptibility(job, non_preemptible, now)

    def review_consent(self, now: float) -> None:
        """Have the policy know whose users and operators let them be preempted, as things are."""
        consent = self.consent
        if consent is not None:
            for job in consent.review(now, self.queue, self.cluster, self.view):
                self._set_preemptibility(job, consent.spares(job), now)

    def _set_preemptibility(self, job: Job, non_preemptible: bool, now: float) -> None:
        if non_preemptible != job.non_preemptible:
            job.non_preemptible = non_preemptible
            if job.status == RUNNING:
                self._notify(events.PREEMPTIBILITY, job, now)

    def _start_failed(self, job: Job, reason: str, now: float) -> None:
        """A start that seemed to succeed did not: as if it had never been, but for the time the GPUs were taken."""
        if job.status != RUNNING:
            return
        first = job.start_s == job.placed_s
        self._release(job, now)
        roll_back(job)
        job.restart_due_s = 0.0 if first else self._restart_s(job)
        if first:
            job.start_s = NEVER
        job.status = WAITING
        self.log.add_failure(now, START_FAILED, job.index, reason)
        self._set_aside(job, now)

    def adopt(self, job: Job, now: float, allocation: Allocation | None = None) -> None:
        """Take in a job we did not start: waiting since `lost_s`, or running on these GPUs since `placed_s`.

        What it has done so far is what the job says. The policy is told of it as of any other.
        """
        job.tenant = 0
        job.number = job.index
        job.slot = -1
        sign(job, self.cluster, self.queue)
        job.kind = self._placement.kind(job)
        job.predicted_s = self._predictor.predict_s(job, now)
        job.status = WAITING
        self.queue.add(job, self._order.key(job, now), self._order.tie(job))
        self._notify(events.QUEUED, job, now)
        if allocation is None:
            self.log.add(now, ADOPT, job.index, -1, None)
            return
        self.queue.remove(job)
        self._seat(job, allocation, ADOPT, now)
        if job.placed_s < 0.0:
            begin(job, now)
        job.rate = 1.0
        job.comm_rate = 0.0
        if job.start_s < 0.0:
            job.start_s = job.placed_s
        self._grant(job, now)

    def _observed_at(self, job: Job, allocation: Allocation, now: float) -> None:
        """A job that waits in our books turns out to run on these GPUs, which are free."""
        if job.status == HELD:
            self._enqueue(job, RELEASE, now, observed=True)
        self.queue.remove(job)
        self._place(job, allocation, ADOPT, now)

    # What the policy asks for.

    def apply(self, action: Action, now: float) -> None:
        """Take note that an action of the policy was carried out."""
        job = action.job
        if isinstance(action, Start):
            self.queue.remove(job)
            self._place(job, action.allocation, START, now)
            return
        if self.consent is not None:
            self.consent.preempted(job, now)
        self._release(job, now)
        if job.unsaved:
            roll_back(job)
        save(job)
        if isinstance(action, Migrate):
            kind = note_move(job, action.allocation)
            job.restart_due_s = pause_s(job, kind, min(self._suspend_s, self._restart_s(job)))
            self._place(job, action.allocation, kind, now)
        else:
            assert isinstance(action, Preempt)
            job.preemptions += 1
            self._lose(job, PREEMPT, min(self._suspend_s, self._restart_s(job)), now)

    def refuse(self, action: Action, reason: str, now: float) -> None:
        """Take note that an action failed: a job that was to start waits, one that was to stop goes on."""
        job = action.job
        if isinstance(action, Start):
            self.log.add_failure(now, START_FAILED, job.index, reason)
            self._set_aside(job, now)
        else:
            kind = MIGRATE_FAILED if isinstance(action, Migrate) else PREEMPT_FAILED
            self.log.add_failure(now, kind, job.index, reason)
            self._notify(events.PREEMPTION_FAILED, job, now)

    def renew(self, now: float) -> None:
        """Jobs whose lease ended and who still hold their GPUs go on: no checkpoint, no restart."""
        for job in self.ended:
            if job.status == RUNNING and job.lease_end_s <= now:
                job.renewals += 1
                job.lease_end_s = now + self.lease_s
                self.leases.put(job.index, job.lease_end_s, 0.0)
                self.log.add(now, RENEW, job.index, -1, None)
        self.ended.clear()

    def end_pass(self, now: float) -> None:
        """Put jobs that were set aside back into the queue, those whose start failed too."""
        self.queue.end_pass()
        for job in self.refused:
            if job.status == WAITING:
                if not self.queue.holds(job):
                    self.queue.add(job, self._order.key(job, now), self._order.tie(job))
                self._notify(events.QUEUED, job, now)

    def next_wakeup(self, now: float) -> float:
        """When the next cycle is due: the policy asked, a lease ends, or a failed start is worth another try."""
        self.notify(events.PASS_ENDED, now)
        wakeup_s = self.policy.wakeup_s
        self.wakeup_s = wakeup_s if wakeup_s > now else INFINITY  # it had its say at this very instant
        if self.refused:
            self.wakeup_s = min(self.wakeup_s, now + RETRY_S)
            self.refused.clear()
        self.wakeup_s = min(self.wakeup_s, self.cluster.next_edge_s())
        if self.consent is not None and self.consent.next_s > now:
            self.wakeup_s = min(self.wakeup_s, self.consent.next_s)
        lease_s = self.leases.key(self.leases.first()) if len(self.leases) > 0 else INFINITY
        return min(self.wakeup_s, lease_s)

    def catch_up(self, now: float) -> None:
        """Bring the progress of all running jobs up to `now`."""
        for job in self.cluster.running.values():
            advance(job, now, self.checkpoint_every_s)

    # The small steps these are made of.

    def _notify(self, kind: i64, job: Job | None, now: float) -> None:
        """Tell the policy what happened to a job."""
        event = self._event
        event.kind = kind
        event.job = job
        event.now = now
        self.policy.on(event)

    def notify(self, kind: i64, now: float, machine: i64 = -1, gpus: i64 = 0) -> None:
        """Tell the policy what happened to a machine, to the network, or in general."""
        self._event.machine = machine
        self._event.gpus = gpus
        self._notify(kind, None, now)

    def _enqueue(self, job: Job, kind: i64, now: float, observed: bool = False) -> None:
        """The job waits. One that no machines could hold is held instead, unless it is `observed` to run."""
        job.status = WAITING
        sign(job, self.cluster, self.queue)
        self.log.add(now, kind, job.index, -1, None)
        if not observed and hold_unschedulable(job, self.cluster, self.log, now):
            if kind in (EVICT, PREEMPT):  # the policy knows it
                self._notify(events.WITHDRAWN, job, now)
            return
        key, tie = self._order.key(job, now), self._order.tie(job)
        self.queue.add(job, key, tie)
        if job.prioritized:
            key, tie = self.queue.key(job), self.queue.tie(job)
        self.log.decisions.add_rank(now, WAITS, job, key, tie)
        self._notify(events.QUEUED, job, now)

    def _lose(self, job: Job, kind: i64, restart_s: float, now: float) -> None:
        job.lost_s = now
        job.restart_due_s = restart_s
        self._enqueue(job, kind, now)

    def _set_aside(self, job: Job, now: float) -> None:
        """The job waits, but is not to be started in this pass."""
        self.queue.remove(job)
        self._notify(events.WITHDRAWN, job, now)
        self.refused.append(job)

    def _restart_s(self, job: Job) -> float:
        costs, restart_s = self.costs, self.view.restart_s(job)
        if costs.jitter == 0:
            return restart_s
        return max(0.0, restart_s + jitter_s(costs.seed, costs.jitter, job.index))

    def _place(self, job: Job, allocation: Allocation, kind: i64, now: float) -> None:
        self._seat(job, allocation, kind, now)
        save(job)  # what it falls back to if the start turns out to have failed
        begin(job, now)
        self._grant(job, now)
        if job.start_s < 0.0:
            job.start_s = now

    def _seat(self, job: Job, allocation: Allocation, kind: i64, now: float) -> None:
        hold(job, allocation.total(), self.speed)
        self.cluster.take(job, allocation)
        allocation.tier = self.cluster.topology.tier_of(allocation)  # whatever the policy calls it
        self.log.add(now, kind, job.index, -1, allocation)
        job.status = RUNNING
        job.allocation, job.tier = allocation, allocation.tier

    def _grant(self, job: Job, now: float) -> None:
        """The lease begins, and speeds change."""
        # From when it works: a lease shorter than the restart would be spent restarting, for ever.
        job.lease_end_s = (job.since_s if job.since_s > now else now) + self.lease_s
        if job.lease_end_s < INFINITY:
            self.leases.put(job.index, job.lease_end_s, 0.0)
        self.changed.append(job)
        if self.consent is not None:
            self.consent.started(job, now)
        self._rerate(self.speed.placed(job), now)
        self._notify(events.STARTED, job, now)

    def _release(self, job: Job, now: float) -> None:
        advance(job, now, self.checkpoint_every_s)
        end(job, now)
        self.leases.discard(job.index)
        allocation = job.allocation
        assert allocation is not None
        self.cluster.give_back(job, allocation)
        self.changed.append(job)
        self._rerate(self.speed.removed(job), now)
        self._notify(events.STOPPED, job, now)
        if self.consent is not None:
            self.consent.stopped(job)
        job.allocation, job.gpus = None, job.requested
        job.lease_end_s = INFINITY

    def _rerate(self, changes: list[Speed], now: float) -> None:
        for change in changes:
            job = change.job
            advance(job, now, self.checkpoint_every_s)
            job.rate = change.rate
            job.comm_rate = change.comm_rate
            self.changed.append(job)
            self._notify(events.RERATED, job, now)
