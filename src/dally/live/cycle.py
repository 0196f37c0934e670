"""One cycle of the live scheduler: look, decide, write down, act."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dally.cluster.topology import Topology
from dally.engine.cycle import cycle
from dally.engine.log import EventLog
from dally.live import job_progress
from dally.live.backends.base import FAILED, Backend, BackendError, Completes, Observed
from dally.live.config import Setup
from dally.live.facts import placement_of
from dally.live.job_progress import ProgressReader
from dally.live.overrides import DELAY, FACT, FIRST, HOLD, Overrides, read_overrides
from dally.live.reconcile import recovery
from dally.live.reconcile.consent_text import note_consent
from dally.live.reconcile.constraints import LiveConstraints
from dally.live.reconcile.known_ends import KnownEnds
from dally.live.reconcile.orders import DRY_RUN, Orders, requests_due, send
from dally.live.reconcile.pending import PendingOrder
from dally.live.reconcile.reconciler import Reconciler
from dally.live.reconcile.roster import Roster
from dally.live.reconcile.unschedulable import UnschedulableGpus, note_non_preemptible
from dally.live.store import Store
from dally.live.store.log_rows import (
    REPLACED,
    UNKNOWN,
    decision_rows,
    ended_row,
    event_rows,
    job_row,
    share_rows,
    would_row,
)
from dally.live.wall_clock import WallClock
from dally.model import FINISH, NEVER, Job
from dally.progress.failure import JobFailure
from dally.report.explanation import BY_ACTION, HOLDS

if TYPE_CHECKING:
    from sqlalchemy import Connection

LATEST = "latest_s"
LEARN_EVERY_S = 60.0  # of the wall clock: what the policy knows is kept so often, and whenever a job ends


@dataclass
class CycleResult:
    """What came of one cycle."""

    now: float
    next_s: float  # when the engine wants the next, if nothing happens before
    events: int = 0
    decisions: list[dict[str, Any]] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    loads: dict[str, float] = field(
        default_factory=dict
    )  # links whose load changed: share of time busy with our jobs
    problems: list[str] = field(default_factory=list)
    refused: int = 0  # requests that the backend did not take, among those
    failed: str = ""  # why the cycle did not come about, or not to its end
    failures: dict[str, JobFailure] = field(default_factory=dict)  # jobs that failed, whose logs say why


class Scheduler:
    """The engine's state of a real cluster. It has no thread and no sleep of its own."""

    def __init__(
        self,
        backend: Backend,
        topology: Topology,
        setup: Setup,
        store: Store,
        clock: WallClock,
        dry_run: bool = False,
    ) -> None:
        self.backend = backend
        self.clock = clock
        self.store = store
        self.roster = Roster(topology, setup.usual_model, clock.moment_s)
        self.state = setup.world(topology).state()
        self.constraints = LiveConstraints(self.state, self.roster, clock.engine_s)
        self.roster.fits_nowhere = self.constraints.why_unschedulable
        self.unschedulable = UnschedulableGpus(self.state, self.roster)
        self._known_ends = KnownEnds(store)
        self.orders = Orders(self.roster, self.unschedulable, dry_run, self.state.speed, self.state.cluster.network)
        self.progress = ProgressReader()
        self.progress.restore(store.fact(job_progress.ERRORS))
        self.overrides = read_overrides(store)
        self._held = set(self.overrides.of(HOLD))  # as of the latest cycle
        self._timers_s: dict[int, float] = {}  # as the policy has them
        self._overridden: set[str] = set()  # jobs with overrides, as of the latest cycle
        self._entries: list[dict[str, Any]] = []  # of the log, by people, since then
        self._left_out = recovery.restore(store, self.state, self.roster, self.overrides, clock.now())
        self.state.log = EventLog()  # that they were taken up again is nobody's news
        self._stored = {order.job_id: order.plain() for order in store.pending_orders()}
        self._due: list[PendingOrder] = []  # to be sent in this cycle
        self._failures: dict[str, JobFailure] = {}  # of this cycle
        self._learnt_s = clock.now()

    def take_note(self, overrides: Overrides | None, entry: dict[str, Any]) -> None:
        """A log entry that is in the store, and the overrides that stand from now on (None: as before)."""
        self.overrides = overrides or self.overrides
        self._entries.append(entry)

    def run_cycle(self, unlocked: Callable[[], AbstractContextManager[None]] = nullcontext) -> CycleResult:
        """Look at the backend, decide, write down what will be sent, send it, and write down the answers.

        `unlocked`: others may look at the scheduler while it waits for the backend.
        """
        with unlocked():
            observed = self.backend.snapshot()
            self.progress.read(self.backend)
        result = self.decide(observed)
        if not self.orders.dry_run:
            with unlocked():
                refused = self._send(result)
            result.problems += refused
            result.refused = len(refused)
            with self.store.transaction() as connection:
                self._write_orders(connection)
        return result

    def _send(self, result: CycleResult) -> list[str]:
        """The orders that are due; what was refused, a line each."""
        try:
            if isinstance(self.backend, Completes):
                result.problems += self.backend.complete()
        except BackendError as error:
            result.failed = str(error)
        refused, failed = send(self.backend, self._due, self.roster.snapshot.term)
        result.failed = result.failed or failed
        return refused

    def decide(self, observed: Observed) -> CycleResult:
        """The engine's cycle on what the backend reports; everything is on the disk when this returns."""
        now = self.clock.now()
        observed = self._known_ends.apply_to(observed)
        self.unschedulable.put_back()
        self.constraints.update(observed, now)
        seen = Reconciler(self.state, self.roster, self.overrides.apply_to(observed), now, self.clock.speed)
        self._apply_overrides(now)
        note_non_preemptible(self.state, self.roster, now)
        happened = seen.events + self.progress.events(self.roster, now)
        result = CycleResult(now, cycle(self.state, happened, now, self.orders), len(happened))
        note_consent(self.state, self.roster, now)
        self._due = []
        if not self.orders.dry_run:
            seen.apply_holds(self.overrides.of(HOLD))
            self._due = requests_due(self.roster, now, self.clock.speed)
        result.problems += seen.problems
        self._failures = result.failures
        self._write(result, seen)
        result.log, self._entries = self._entries + result.log, []
        for job_id in seen.ended:
            self.progress.ended(self.roster.jobs[job_id], now)
            self.roster.dismiss(self.roster.jobs[job_id])
        self.state.log = EventLog()
        return result

    def _apply_overrides(self, now: float) -> None:
        """Have the policy heed the overrides of jobs and timers."""
        overrides = self.overrides
        overridden = {*overrides.of(FIRST), *overrides.of(DELAY)}
        for job_id in sorted(overridden | self._overridden):
            job = self.roster.jobs.get(job_id)
            if job is not None:
                self.state.override(job, job_id in overrides.of(FIRST), overrides.delay_until_s(job_id), now)
        self._overridden = overridden
        timers_s = overrides.timers_s()
        for gpus in sorted(timers_s.keys() | self._timers_s.keys()):
            changed = timers_s.get(gpus, NEVER) != self._timers_s.get(gpus, NEVER)
            if changed and self.state.policy.delay_overrides is not None:
                self.state.policy.delay_overrides.set_s(gpus, timers_s.get(gpus, NEVER))
        self._timers_s = timers_s

    def _write(self, result: CycleResult, seen: Reconciler) -> None:
        topology, log = self.roster.topology, self.state.log
        replaced = {int(job.index): job.job_id for job, _ in seen.replaced}  # which the roster no longer has

        def name_of(number: int) -> str | None:
            return replaced.get(number) or self._name(number)

        result.log = [row for row in event_rows(log, topology, name_of) if row["reason"] != DRY_RUN]
        result.log += [would_row(result.now, job_id, what) for job_id, what in self.orders.would()]
        by_override = self._held | set(self.overrides.of(HOLD))
        for row in result.log:
            if row["kind"] in HOLDS and row["job_id"] in by_override:
                row["reason"] = BY_ACTION
        result.decisions = [*decision_rows(log, topology, name_of), *share_rows(self.state.policy)]
        result.loads = {
            self.state.speed.link_name(int(link)): load
            for link, load in zip(log.link_numbers, log.link_loads, strict=True)
        }
        rows = [self._row(job, seen) for job in self._touched(log)]
        rows += [ended_row(job, before, REPLACED, seen.now) for job, before in seen.replaced]
        others, ends = self._left_out.rows_of_ended(self.roster, seen.now)
        rows += others
        result.log = ends + result.log
        overrides = self.overrides.without_jobs({*seen.ended, *(row["job_id"] for row in ends)})
        with self.store.transaction() as connection:
            self.store.write_jobs(connection, rows)
            self._write_orders(connection, seen.ended)
            self.store.write_log(connection, result.log, result.decisions)
            self.store.keep(connection, LATEST, result.now)
            if self.state.consent is not None:
                self.store.keep(connection, recovery.CONSENT, self.state.consent.waits_from_s)
            if overrides is not self.overrides:
                self.store.keep(connection, FACT, overrides.plain())
            ended = any(event.kind == FINISH for event in seen.events)
            if ended or result.now - self._learnt_s >= LEARN_EVERY_S * self.clock.speed:
                policy = self.state.policy
                learnt = {"policy": type(policy).__qualname__, "knows": policy.save()}
                self.store.keep(connection, recovery.LEARNT, learnt)
                self.store.keep(connection, recovery.SPEEDS, self.state.speed.saved())
                self.store.keep(connection, job_progress.ERRORS, self.progress.saved())
                self._learnt_s = result.now
        self.overrides, self._held = overrides, set(overrides.of(HOLD))

    def _write_orders(self, connection: Connection, ended: Container[str] = ()) -> None:
        """As far as they have changed."""
        orders = {job_id: order.plain() for job_id, order in self.roster.orders.items() if job_id not in ended}
        changed = [row for job_id, row in orders.items() if row != self._stored.get(job_id)]
        self.store.write_orders(connection, changed, self._stored.keys() - orders.keys())
        self._stored = orders

    def _touched(self, log: EventLog) -> Iterable[Job]:
        """Jobs of which something was logged or whose speed changed."""
        numbers = {int(number) for number in log.jobs} | {int(job.index) for job in self.state.changed}
        jobs = (self.roster.numbered(number) for number in sorted(numbers))
        return [job for job in jobs if job is not None]

    def _row(self, job: Job, seen: Reconciler) -> dict[str, Any]:
        observed = self.roster.observed[job.job_id]
        if job.job_id in seen.ended:
            end = seen.ended[job.job_id]
            if end is not None and end.state == FAILED:
                failure = self.progress.failure_of(job.job_id)
                if failure is not None:
                    self._failures[job.job_id] = failure
                reasons = filter(None, (end.reason, "" if failure is None else failure.described()))
                observed = replace(observed, reason=": ".join(reasons))
            return ended_row(job, observed, UNKNOWN if end is None else end.state, seen.now)
        where = None if job.allocation is None else placement_of(self.roster.topology, job.allocation)
        return job_row(job, observed, where)

    def _name(self, number: int) -> str | None:
        job = self.roster.numbered(number) if number >= 0 else None
        return None if job is None else job.job_id
