"""Walks the table: what the backend reports against the engine's books, as events, orders and problems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import replace
from typing import Final

from dally.engine.sizing import is_size
from dally.engine.state import State
from dally.live.backends import base
from dally.live.backends.base import Observed, ObservedJob
from dally.live.reconcile import transitions
from dally.live.reconcile.pending import BLOCKED, KEEP, START, PendingOrder
from dally.live.reconcile.roster import Roster
from dally.live.reconcile.unschedulable import why_unschedulable
from dally.model import (
    ADOPT,
    CANCEL,
    EVICT,
    FAIL,
    FINISH,
    HELD,
    KIND_NAMES,
    PENDING,
    PREEMPT,
    REPAIR,
    RUNNING,
    START_FAILED,
    SUBMIT,
    WAITING,
    Allocation,
    Event,
    Job,
    Preempt,
)

MOST_ATTEMPTS: Final = 3  # the backend is sent one start before that is given up
START_WITHIN_S: Final = 120.0  # of the wall clock, since it was last sent; so long it may refuse to stop a job, too
LATE: Final = f"the backend did not start it within {START_WITHIN_S:g} s"
KEEP_FOR: Final = 5.0  # times that: a job that it would not stop is left alone
RETRY_S: Final = 5.0  # of the wall clock: a blocked job is tried again, each time after twice as long,
LONGEST_RETRY_S: Final = 600.0  # and at least so often
STATUS: Final = {PENDING: "waiting", WAITING: "waiting", RUNNING: "running", HELD: "held"}
GIVE_BACK: Final = (FINISH, CANCEL, EVICT, START_FAILED)
ADMISSION, JOBS, HOLDS = (
    transitions.index(transitions.ADMISSION),
    transitions.index(transitions.JOBS),
    transitions.index(transitions.HOLDS),
)


class JobCase:
    """One job as the table sees it."""

    __slots__ = ("free", "held", "job", "now", "observed", "order", "roster", "within_s")  # one a job and cycle

    def __init__(
        self, roster: Roster, job: Job | None, observed: ObservedJob | None, now: float, within_s: float
    ) -> None:
        self.roster = roster
        self.job = job
        self.observed = observed
        self.order: PendingOrder | None = roster.orders.get(job.job_id) if job is not None else None
        self.now = now
        self.within_s = within_s  # START_WITHIN_S on the engine's clock
        self.held: Container[str] = ()  # jobs on hold, where that counts
        self.free: Mapping[str, int] = {}  # GPUs by machine that no job has, where that counts

    def row(self, rows: transitions.Index) -> transitions.Row | None:
        """The first row that fits."""
        order, observed, job = self.order, self.observed, self.job
        key = (
            transitions.NO_ORDER if order is None else order.desired,
            transitions.ABSENT if observed is None else observed.state,
            transitions.UNKNOWN if job is None else STATUS.get(job.status, "ended"),
        )
        for row in rows.get(key, ()):
            guard = row.guard
            if not guard or GUARDS[guard](self):
                return row
        return None

    @property
    def known(self) -> Job:
        """The engine's job, where there is one."""
        assert self.job is not None
        return self.job

    @property
    def seen(self) -> ObservedJob:
        """The backend's, where there is one."""
        assert self.observed is not None
        return self.observed

    def allocation(self) -> Allocation | None:
        """The GPUs that it has on the cluster, as far as the topology knows them."""
        return self.roster.allocation(self.seen.placement)

    def is_here(self) -> bool:
        """Whether it runs where the engine has it."""
        here, there = self.known.allocation, self.allocation()
        return here is not None and there is not None and sorted(here.parts()) == there.parts()

    def is_elsewhere(self) -> bool:
        """Whether it is to run in another place than it does, and was not just sent to start."""
        assert self.order is not None
        return self.seen.managed and self.order.placement != self.seen.placement and self.order.request != START

    def is_refused(self) -> bool:
        """Whether the backend has refused for so long that it will not."""
        assert self.order is not None
        return bool(self.order.answer) and self.now - self.order.decided_s > self.within_s

    def is_late(self) -> bool:
        """Whether the start has taken too long."""
        assert self.order is not None
        since_s = self.order.sent_s if self.order.sent_s >= 0.0 else self.order.decided_s
        return self.now - since_s > self.within_s

    def is_stoppable(self) -> bool:
        """Whether it is ours to stop, and can be."""
        return self.seen.managed and self.seen.preemptible

    def is_on_hold(self) -> bool:
        """Whether an operator or its user has put it on hold here."""
        return self.known.job_id in self.held


def _order(case: JobCase) -> PendingOrder:
    assert case.order is not None
    return case.order


GUARDS: Final[dict[str, Callable[[JobCase], bool]]] = {
    "asks_for_no_gpus": lambda case: case.seen.spec.gpus < 1,
    "is_unschedulable": lambda case: bool(why_unschedulable(case.roster, case.seen)),
    "asks_for_other_gpus": lambda case: case.seen.spec.gpus != case.known.requested,
    "refuses_to_stop_here": lambda case: case.seen.managed and case.is_here() and case.is_refused(),
    "is_managed_here": lambda case: case.seen.managed and case.is_here(),
    "leaves_for_elsewhere": lambda case: case.is_elsewhere() and not case.is_refused(),
    "refuses_to_leave": lambda case: case.is_elsewhere() and case.is_refused(),
    "leaves": lambda case: case.seen.managed and not case.is_refused(),
    "refuses_to_stop": lambda case: case.seen.managed and case.is_refused(),
    "is_here": JobCase.is_here,
    "is_outside": lambda case: case.allocation() is None,
    "may_yet_start": lambda case: _order(case).attempts < MOST_ATTEMPTS and not case.is_late(),
    "is_retry_due": lambda case: case.now >= _order(case).retry_s,
    "is_late": JobCase.is_late,
    "is_managed": lambda case: case.seen.managed,
    "is_on_hold_and_managed": lambda case: case.is_on_hold() and case.is_stoppable(),
    "is_on_hold_and_not_ours": lambda case: case.is_on_hold() and not case.is_stoppable(),
    "is_released_in_time": lambda case: not case.is_on_hold() and not _order(case).is_taken,
    "is_elsewhere_and_managed": lambda case: case.seen.managed and case.seen.placement != _order(case).placement,
    "finds_gpus_free": lambda case: all(
        case.free.get(name, 0) >= gpus for name, gpus in (_order(case).placement or {}).items()
    ),
}


def is_refused_size(job: Job, observed: ObservedJob) -> bool:
    """Whether the cluster's own rules refuse a size above what the job asks for: it is none of its sizes then."""
    if observed.state != base.BLOCKED or job.status != RUNNING or job.gpus <= job.requested:
        return False
    job.sizes = tuple(size for size in job.sizes if size < job.gpus)
    return True


class Reconciler:
    """One look at the backend: `events` bring the books up to it, `ended` are jobs that will not be back."""

    def __init__(self, state: State, roster: Roster, observed: Observed, now: float, speed: float) -> None:
        self.events: list[Event] = []
        self.ended: dict[str, ObservedJob | None] = {}  # None: the backend no longer knows the job
        self.replaced: list[tuple[Job, ObservedJob]] = []  # jobs that go on as others, which ask for other GPUs
        self.problems: list[str] = list(observed.problems)
        self.now = now
        self._state = state
        self._roster = roster
        self._speed = speed
        self._adopted: list[tuple[Job, Allocation]] = []
        states = dict.fromkeys(roster.machines, base.DOWN)  # also of machines that are no longer reported
        states |= {machine.name: machine.state for machine in observed.machines}
        self._down = {name for name, state in states.items() if state == base.DOWN}
        roster.snapshot = observed
        roster.unschedulable, roster.outgrown = {}, {}
        self._machines(states)
        jobs = [job for job in map(self._within, observed.jobs) if job is not None]
        for job in jobs:
            self._report(job)
        reported = {job.job_id for job in jobs}
        for missing in [job for job in roster if job.job_id not in reported]:
            self._apply(JobCase(roster, missing, None, now, START_WITHIN_S * speed), JOBS)
        self._retry_blocked()
        self._adopt()

    def apply_holds(self, held: Collection[str]) -> None:
        """After the policy's pass: jobs that run and are on hold are to stop."""
        stops = {order.job_id for order in self._roster.orders.values() if order.desired == transitions.STOP}
        if not (held or stops):
            return
        for job in self._roster:
            if job.job_id in held or job.job_id in stops:
                case = self._case(job)
                case.held = held
                self._apply(case, HOLDS)

    def _case(self, job: Job | None, observed: ObservedJob | None = None) -> JobCase:
        if observed is None and job is not None:
            observed = self._roster.observed[job.job_id]
        return JobCase(self._roster, job, observed, self.now, START_WITHIN_S * self._speed)

    def _machines(self, states: Mapping[str, str]) -> None:
        """Machines that went down or came back; one that drains is left alone until it is empty."""
        down = self._state.cluster.down
        for name, number in self._roster.machines.items():
            state = states[name]
            empty = not self._state.cluster.jobs_on[number]
            gone = state == base.DOWN or (state == base.DRAINING and empty)
            if gone and not down[number]:
                self.events.append(Event(FAIL, machine=number))
            elif state == base.UP and down[number]:
                self.events.append(Event(REPAIR, machine=number))

    def _within(self, observed: ObservedJob) -> ObservedJob | None:
        """Of a job that is not ours only what it has on our machines; None if it runs nowhere on them."""
        if observed.managed or all(name in self._roster.machines for name in observed.placement):
            return observed
        placement = {name: gpus for name, gpus in observed.placement.items() if name in self._roster.machines}
        gpus = sum(placement.values())
        return replace(observed.with_gpus(gpus), placement=placement) if placement else None

    def _report(self, observed: ObservedJob) -> None:
        """One job that the backend reports."""
        roster = self._roster
        job = roster.jobs.get(observed.job_id)
        if job is not None and roster.is_settled(job, observed):
            return
        case = self._case(job, observed)
        row = case.row(ADMISSION)
        assert row is not None
        if row.problem:
            why = why_unschedulable(roster, observed)
            self.problems.append(row.problem.format(job=observed.job_id, unschedulable=why))
            if job is None:
                roster.unschedulable[observed.job_id] = (observed, why)
            else:
                roster.outgrown[observed.job_id] = why
                observed = observed.with_gpus(int(job.requested))
        if "cancel" in row.events and job is not None:
            self.events.append(Event(CANCEL, job))
            self.replaced.append((job, roster.observed[job.job_id]))
            roster.dismiss(job)
        if "submit" in row.events:
            job = roster.admit(observed)
            self.events.append(Event(SUBMIT, job))
        if job is not None:
            roster.observed[job.job_id] = observed
            changed = row.problem or row.events
            acted = self._apply(self._case(job, observed) if changed else case, JOBS)
            if not (changed or acted or job.job_id in roster.orders):
                roster.settle(job, observed)

    def _apply(self, case: JobCase, rows: transitions.Index) -> bool:
        """Do as the table says; whether that was anything."""
        row = case.row(rows)
        if row is None:
            return False
        if row.problem or row.events:
            job, observed, order = case.known, case.observed, case.order
            answer = (order.answer if order is not None else None) or ""
            why = row.reason and row.reason.format(
                reason=observed.reason if observed else "", seconds=START_WITHIN_S
            )
            if row.problem:
                self.problems.append(row.problem.format(job=job.job_id, answer=answer))
            for name in row.events:
                self._emit(name, case, answer or why)
        if row.order:
            self._settle(row.order, case)
        return bool(row.problem or row.events)

    def _emit(self, name: str, case: JobCase, why: str) -> None:
        job, kind = case.known, KIND_NAMES.index(name)
        if kind == PREEMPT:
            self._state.apply(Preempt(job), self.now)
        elif kind == ADOPT:
            allocation = case.allocation()
            lost = any(name in self._down for name in case.seen.placement)
            if allocation is not None and is_size(job, allocation.total()) and not lost:
                self._adopted.append((job, allocation))  # not a gang that lost machines: see unschedulable.py
        else:
            if kind in (FINISH, CANCEL):
                self.ended[job.job_id] = case.observed
            if kind == FINISH:
                job.duration_s = job.done_s(self.now)  # whatever its user expected
            self.events.append(Event(kind, job, reason=why))

    def _settle(self, order: str, case: JobCase) -> None:
        """What becomes of the pending order."""
        roster, job_id, within_s = self._roster, case.known.job_id, case.within_s
        if order == transitions.DROP:
            roster.orders.pop(job_id, None)
        elif order == transitions.STOP:
            roster.desire(job_id, None, self.now)
        elif order == transitions.POSTPONE:
            _order(case).retry_s = self.now + KEEP_FOR * within_s
        elif order == transitions.KEEP:
            roster.orders[job_id] = PendingOrder(
                job_id, KEEP, self.now, answer=_order(case).answer, retry_s=self.now + KEEP_FOR * within_s
            )
        elif order == transitions.BLOCK:
            blocks = _order(case).blocks + 1
            wait_s = min(LONGEST_RETRY_S, RETRY_S * 2.0 ** min(blocks - 1, 10)) * self._speed
            if is_refused_size(case.known, case.seen):
                blocks, wait_s = blocks - 1, 0.0
            roster.orders[job_id] = PendingOrder(
                job_id, BLOCKED, self.now, blocks=blocks, reason=case.seen.reason or LATE, retry_s=self.now + wait_s
            )

    def _retry_blocked(self) -> None:
        """Limits are of users and accounts: where one of their jobs has ended, another may start now."""
        observed = self._roster.observed
        users = {observed[job_id].spec.user for job_id in self.ended}
        accounts = {observed[job_id].spec.account for job_id in self.ended}
        for order in self._roster.orders.values() if self.ended else ():
            one = observed[order.job_id]
            if order.desired == BLOCKED and (one.spec.user in users or one.spec.account in accounts):
                order.retry_s = min(order.retry_s, self.now)

    # Jobs that run where the books do not have them.

    def _adopt(self) -> None:
        """Make room for them in the books: a start that is not carried out yet gives way to what is the case."""
        if not self._adopted:
            return
        free, gone = self._free_after()
        for job, allocation in self._adopted:
            for machine, gpus in allocation.parts():
                self._make_room(free, gone, machine, gpus)
            if all(free[machine] >= gpus for machine, gpus in allocation.parts()):
                for machine, gpus in allocation.parts():
                    free[machine] -= gpus
                self.events.append(Event(ADOPT, job, allocation=allocation))
            else:
                self.problems.append(f"job {job.job_id} runs on GPUs that others hold")

    def _free_after(self) -> tuple[list[int], set[int]]:
        """Free GPUs by machine once the events so far have happened, and numbers of jobs that give theirs back."""
        cluster = self._state.cluster
        free = [int(cluster.all_free_on(machine)) for machine in range(len(cluster.down))]
        gone = {int(event.job.index): event.job for event in self.events if event.job and event.kind in GIVE_BACK}
        for job in gone.values():
            for machine, gpus in job.allocation.parts() if job.allocation is not None else []:
                free[machine] += gpus
        for event in self.events:
            if event.kind in (FAIL, REPAIR):
                whole = int(self._roster.topology.gpus[0][event.machine])
                free[int(event.machine)] = whole if event.kind == REPAIR else 0
        return free, set(gone)

    def _make_room(self, free: list[int], gone: set[int], machine: int, gpus: int) -> None:
        for other in list(self._state.cluster.jobs_on[machine]):
            if free[machine] >= gpus:
                return
            if int(other.index) in gone or self._roster.desired(other.job_id) != "run":
                continue
            gone.add(int(other.index))
            self.events.append(Event(START_FAILED, other, reason="another job has taken its GPUs"))
            del self._roster.orders[other.job_id]
            for place, allocated in other.allocation.parts() if other.allocation is not None else []:
                free[place] += allocated
