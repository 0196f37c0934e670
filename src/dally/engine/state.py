"""The state of a cluster at work. The only place where jobs, queue and capacity change."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.cluster.slots import fragmentation, gang_sizes, slot_table
from dally.engine.log import EventLog
from dally.engine.rates import advance, begin, end, roll_back, save
from dally.errors import PolicyError
from dally.heap import IndexedHeap
from dally.model import (
    EVICT,
    FAIL,
    FINISH,
    FINISHED,
    INFINITY,
    LEASE,
    MIGRATE,
    PENDING,
    PREEMPT,
    RENEW,
    REPAIR,
    RUNNING,
    START,
    SUBMIT,
    TIMER,
    WAITING,
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
from dally.policies.base import Policy
from dally.policies.queue import Queue
from dally.policies.view import View

SAMPLE_EVERY_S: Final = 3600.0  # between two samples of the slots


class State:
    """Jobs, queue, capacity, and for each running job the moment its finish or lease end is due."""

    __slots__ = (
        "checkpoint_every_s", "cluster", "costs", "due", "ended", "finished", "lease_s", "log",
        "policy", "queue", "sample_due_s", "sample_every_s", "sample_from_s", "sample_sizes", "speed",
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
        self.lease_s: float = policy.lease_s()
        self.queue: Queue = Queue()
        self.log: EventLog = EventLog()
        self.due: IndexedHeap = IndexedHeap()  # by job index; the tie is FINISH or LEASE
        self.ended: list[Job] = []  # leases that ended in this cycle
        self.finished: i64 = 0
        self.sample_every_s: float = sample_every_s
        self.sample_from_s: float = 0.0  # the first cycle
        self.sample_due_s: float = -INFINITY
        self.sample_sizes: list[int] = gang_sizes(cluster)
        policy.begin(View(speed, costs))

    # What happens to us.

    def happen(self, event: Event, now: float) -> None:
        """Take note of one event."""
        kind = event.kind
        job = event.job
        if job is None:
            if kind == FAIL:
                self._fail(event.machine, now)
            elif kind == REPAIR:
                self.cluster.repair(event.machine)
                self.policy.machine_repaired(event.machine, now)
                self.log.add(now, REPAIR, -1, event.machine, None)
            else:
                self.log.add(now, TIMER, -1, -1, None)
        elif kind == SUBMIT:
            assert job.status == PENDING
            job.kind = self.policy.kind(job)
            job.predicted_s = self.policy.predict_s(job, now)
            self._enqueue(job, SUBMIT, now)
        elif kind == FINISH:
            self._finish(job, now)
        elif job.status == RUNNING:  # and not evicted at this very instant
            assert kind == LEASE
            self.ended.append(job)
            self.policy.lease_ended(job, now)

    def _finish(self, job: Job, now: float) -> None:
        self._release(job, now)
        job.work_s = job.duration_s
        job.status = FINISHED
        job.finish_s = now
        self.finished += 1
        self.log.add(now, FINISH, job.index, -1, None)
        self.policy.finished(job, now)

    def _fail(self, machine: i64, now: float) -> None:
        self.log.add(now, FAIL, -1, machine, None)
        for job in list(self.cluster.jobs_on[machine]):
            self._release(job, now)
            if self.checkpoint_every_s > 0.0:
                roll_back(job)
            self._lose(job, EVICT, now)
        self.cluster.fail(machine)
        self.policy.machine_failed(machine, now)

    # What the policy asks for.

    def apply(self, action: Action, now: float) -> None:
        """Carry out one action of the policy, or raise PolicyError."""
        job = action.job
        if isinstance(action, Start):
            if job.status != WAITING:
                raise PolicyError(f"{job!r} was started but does not wait")
            self.queue.remove(job)
            self._place(job, action.allocation, START, now)
            if job.start_s < 0.0:
                job.start_s = now
            return
        if job.status != RUNNING:
            raise PolicyError(f"{job!r} was preempted or migrated but does not run")
        self._release(job, now)
        save(job)
        if isinstance(action, Migrate):
            job.migrations += 1
            job.restart_due_s = self._restart_s(job)
            self._place(job, action.allocation, MIGRATE, now)
        else:
            assert isinstance(action, Preempt)
            job.preemptions += 1
            self._lose(job, PREEMPT, now)

    def renew(self, now: float) -> None:
        """Jobs whose lease ended and who still hold their GPUs go on: no checkpoint, no restart."""
        for job in self.ended:
            if job.status == RUNNING and job.lease_end_s <= now:
                job.renewals += 1
                job.lease_end_s = now + self.lease_s
                self.log.add(now, RENEW, job.index, -1, None)
                self._expect(job)
        self.ended.clear()

    def note_links(self, now: float) -> None:
        """Log the links whose load changed."""
        for change in self.speed.link_loads():
            self.log.add_load(now, change.link, change.load)

    def note_decisions(self, now: float) -> None:
        """Log the policy's reasons."""
        for decision in self.policy.decisions():
            self.log.decisions.add(now, decision)

    def note_slots(self, now: float) -> None:
        """Log what could start now: at the first cycle, then at the first one in each full hour since."""
        if now < self.sample_due_s:
            return
        if len(self.log.slot_times) == 0:
            self.sample_from_s = now
        periods = (now - self.sample_from_s) // self.sample_every_s
        due_s = self.sample_from_s + periods * self.sample_every_s
        while due_s <= now:  # once or twice: the division may have been rounded
            periods += 1.0
            due_s = self.sample_from_s + periods * self.sample_every_s
        self.sample_due_s = due_s
        cluster = self.cluster
        counts = slot_table(cluster, self.sample_sizes)
        self.log.add_slots(now, cluster.free_gpus, fragmentation(cluster), counts)

    def catch_up(self, now: float) -> None:
        """Bring the progress of all running jobs up to `now`."""
        for job in self.cluster.running.values():
            advance(job, now, self.checkpoint_every_s)

    # The small steps these are made of.

    def _enqueue(self, job: Job, kind: i64, now: float) -> None:
        job.status = WAITING
        self.log.add(now, kind, job.index, -1, None)
        self.queue.add(job, self.policy.key(job, now), self.policy.tie(job))
        self.policy.queued(job, now)

    def _lose(self, job: Job, kind: i64, now: float) -> None:
        job.lost_s = now
        job.restart_due_s = self._restart_s(job)
        self._enqueue(job, kind, now)

    def _restart_s(self, job: Job) -> float:
        return self.costs.gang_restart_s(int(job.gpus))

    def _place(self, job: Job, allocation: Allocation, kind: i64, now: float) -> None:
        self.cluster.take(job, allocation)
        allocation.tier = self.cluster.topology.tier_of(allocation.machines)  # whatever the policy calls it
        self.log.add(now, kind, job.index, -1, allocation)
        job.status = RUNNING
        job.allocation = allocation
        job.tier = allocation.tier
        begin(job, now)
        # From when it works: a lease shorter than the restart would be spent restarting, for ever.
        job.lease_end_s = job.since_s + self.lease_s
        self._expect(job)
        self._rerate(self.speed.placed(job), now)
        self.policy.started(job, now)

    def _release(self, job: Job, now: float) -> None:
        advance(job, now, self.checkpoint_every_s)
        end(job, now)
        self.due.discard(job.index)
        allocation = job.allocation
        assert allocation is not None
        self.cluster.give_back(job, allocation)
        self._rerate(self.speed.removed(job), now)
        self.policy.stopped(job, now)
        job.allocation = None
        job.lease_end_s = INFINITY

    def _rerate(self, changes: list[Speed], now: float) -> None:
        for change in changes:
            job = change.job
            advance(job, now, self.checkpoint_every_s)
            job.rate = change.rate
            job.comm_rate = change.comm_rate
            self._expect(job)
            self.policy.rerated(job, now)

    def _expect(self, job: Job) -> None:
        finish_s = job.expected_finish_s()
        if finish_s <= job.lease_end_s:
            self.due.put(job.index, finish_s, float(FINISH))
        else:
            self.due.put(job.index, job.lease_end_s, float(LEASE))
