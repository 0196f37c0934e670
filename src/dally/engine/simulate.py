"""The simulator: the scheduling cycle, and a virtual clock that jumps from event to event."""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.statement import is_constrained
from dally.engine.cycle import carry_out, close_cycle, cycle, open_cycle
from dally.engine.degradations import ComingDegradations, Degradations
from dally.engine.executor import Executor
from dally.engine.failures import Failures, Outages
from dally.engine.handover import handed_over
from dally.engine.measurements import Measurements
from dally.engine.reports import Reports
from dally.engine.signing import constrain
from dally.engine.state import SAMPLE_EVERY_S, State
from dally.engine.watch import Watch
from dally.heap import IndexedHeap
from dally.model import FINISH, INFINITY, NETWORK, SUBMIT, Action, Costs, Event, Job
from dally.perf.base import SpeedModel
from dally.policies.base import Policy

CYCLES_PER_REPORT = 512  # between two calls of the progress callback


@mypyc_attr(allow_interpreted_subclasses=True)
class Simulation:
    """One run. `jobs` are in order of submission and numbered by it."""

    __slots__ = (
        "_arrived", "_degradations", "_executor", "_finishes", "_measurements", "_outages", "_reports", "_rescaled",
        "_shares", "cycles", "jobs", "next_s", "now",
        "state", "stuck", "watch",
    )  # fmt: skip

    def __init__(
        self,
        jobs: list[Job],
        cluster: Cluster,
        policy: Policy,
        speed: SpeedModel,
        costs: Costs,
        failures: Failures,
        sample_every_s: float = SAMPLE_EVERY_S,
        shares: list[tuple[float, float]] | None = None,
        reports: Reports | None = None,
        measurements: Measurements | None = None,
        degradations: Degradations | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`shares`: from which moments on links have what share of their bandwidth, in order."""
        self.jobs: list[Job] = jobs
        self.state: State = State(cluster, policy, speed, costs, sample_every_s)
        if any_constrained(jobs) or (cluster.topology.partitions and any(job.partition for job in jobs)):
            constrain(self.state)
        self.now: float = jobs[0].submit_s if jobs else 0.0
        self.cycles: i64 = 0
        self.stuck: bool = False  # stopped with jobs that the policy would never start
        self.next_s: float = INFINITY  # when the engine wants a cycle even if nothing happens
        self.watch: Watch = watch if watch is not None else Watch()
        self._executor: Executor = self.watch
        self._arrived: i64 = 0
        self._finishes: IndexedHeap = IndexedHeap()  # running jobs by when they will be done
        self._shares: list[tuple[float, float]] = [(max(at_s, self.now), share) for at_s, share in shares or []]
        self._rescaled: i64 = 0  # so many of these have come
        self._reports: Reports = reports if reports is not None else Reports()
        self._measurements: Measurements = measurements if measurements is not None else Measurements()
        self._outages: Outages = Outages(failures, cluster.topology.machine_count(), self.now)
        self._degradations: ComingDegradations = ComingDegradations(degradations or Degradations(), self.now)

    def run(self, until_s: float = INFINITY, report: Callable[[Simulation], None] | None = None) -> None:
        """Go on until every job is done, nothing more can happen, or the clock would pass `until_s`."""
        self.go_on(until_s, report)
        self._stop(until_s)
        if report is not None:
            report(self)

    def go_on(self, until_s: float = INFINITY, report: Callable[[Simulation], None] | None = None) -> None:
        """Run every cycle up to `until_s` and no more: from here one can save, or go on as if never stopped."""
        while self.state.finished < len(self.jobs):
            if not self.step(until_s):
                break
            if report is not None and self.cycles % CYCLES_PER_REPORT == 0:
                report(self)

    def step(self, until_s: float = INFINITY) -> bool:
        """Jump to the next event and run a cycle; False when there is none by `until_s`."""
        next_s = self._next_s()
        if next_s > until_s or next_s == INFINITY or self._is_stuck():
            return False
        self.happen(self._collect(next_s), next_s)
        return True

    def happen(self, events: list[Event], now: float) -> None:
        """Run a cycle at `now`, which is not after the next event, with these events."""
        self._advance(now)
        self.next_s = cycle(self.state, events, now, self._executor)
        self._note_finishes()
        successor = self.state.policy.successor
        if successor is not None:
            self.change_policy(successor)

    def _advance(self, now: float) -> None:
        """The clock moves on to the next cycle; the watch looks first, if it is time."""
        self.now = now
        self.cycles += 1
        if self.watch.next_s() <= now:
            self.state.changed.clear()
            self.watch.look(self.state, now)
            self._note_finishes()  # of jobs that it stopped or moved, and of those beside them

    # The same in three parts, for learners that decide from outside (dally.gym).

    def open_step(self) -> bool:
        """Jump to the next event and begin a cycle; False when there is none, or every job is done."""
        next_s = self._next_s()
        if self.state.finished >= len(self.jobs) or next_s == INFINITY or self._is_stuck():
            return False
        events = self._collect(next_s)
        self._advance(next_s)
        open_cycle(self.state, events, next_s, self._executor)
        return True

    def in_system(self) -> i64:
        """Jobs that have come and are not done."""
        return self._arrived - self.state.finished

    def act(self, action: Action) -> None:
        """Carry out an action within the cycle."""
        carry_out(self.state, action, self.now, self._executor)

    def close_step(self) -> None:
        """End the cycle."""
        self.next_s = close_cycle(self.state, self.now)
        self._note_finishes()

    def _note_finishes(self) -> None:
        """Expect those anew whose speed changed."""
        for job in self.state.changed:
            if job.allocation is not None:
                self._finishes.put(job.index, job.expected_finish_s(), 0.0)
            else:
                self._finishes.discard(job.index)
            if self._reports.share > 0.0:
                self._reports.expect(job)
            if self._measurements.on:
                self._measurements.expect(job, self.now)

    def change_policy(self, policy: Policy) -> None:
        """From here on another policy decides; it finds all jobs as they are."""
        self.state = handed_over(self.state, self.jobs, policy, self.now)
        self._note_finishes()
        self.next_s = self.now  # it has its say at once

    def take_up(self, state: State, jobs: list[Job], arrived: i64, now: float, executor: Executor) -> None:
        """Go on from a state that another engine has brought about; so many of the jobs had come by then."""
        self.state = state
        self._executor = executor
        self.jobs = jobs
        self._arrived = arrived
        self.now = now
        self.next_s = now
        state.changed = list(state.cluster.running.values())
        self._note_finishes()

    def _next_s(self) -> float:
        next_s = min(self.next_s, self._outages.next_s())
        if self._arrived < len(self.jobs):
            next_s = min(next_s, self.jobs[self._arrived].submit_s)
        if self._rescaled < len(self._shares):
            next_s = min(next_s, self._shares[self._rescaled][0])
        next_s = min(next_s, self._reports.next_s(), self._measurements.next_s(), self._degradations.next_s())
        next_s = min(next_s, self.watch.next_s())
        finishes = self._finishes
        if len(finishes) > 0:
            next_s = min(next_s, finishes.key(finishes.first()))
        return next_s

    def _collect(self, now: float) -> list[Event]:
        """Everything that happens at `now` and that the engine does not know of itself."""
        events: list[Event] = []
        finishes = self._finishes
        while len(finishes) > 0 and finishes.key(finishes.first()) <= now:
            events.append(Event(FINISH, self.jobs[finishes.pop()]))
        self._outages.collect(now, events)
        self._degradations.collect(now, events)
        self._reports.collect(now, self.jobs, events)
        self._measurements.collect(now, self.jobs, events)
        while self._rescaled < len(self._shares) and self._shares[self._rescaled][0] <= now:
            events.append(Event(NETWORK, share=self._shares[self._rescaled][1]))
            self._rescaled += 1
        while self._arrived < len(self.jobs) and self.jobs[self._arrived].submit_s <= now:
            events.append(Event(SUBMIT, self.jobs[self._arrived]))
            self._arrived += 1
        return events

    def _is_stuck(self) -> bool:
        """Whether only outages are left to come though every machine is up: nothing will ever start."""
        return (
            len(self.state.cluster.running) == 0
            and self._arrived == len(self.jobs)
            and self._rescaled == len(self._shares)
            and self.state.wakeup_s == INFINITY
            and 1 not in self.state.cluster.down
            and not self.watch.holds_back()
        )

    def _stop(self, until_s: float) -> None:
        """Bring the books of running jobs up to the moment the clock stops."""
        unfinished = self.state.finished < len(self.jobs)
        if unfinished and until_s < INFINITY:
            self.now = max(self.now, until_s)
        self.stuck = unfinished and self.now < until_s
        self.state.catch_up(self.now)


def any_constrained(jobs: list[Job]) -> bool:
    """Whether a job asks for anything that free GPUs alone do not answer."""
    seen: set[int] = set()  # jobs that ask for the same often share a spec
    for job in jobs:
        spec = job.spec
        if id(spec) not in seen:
            if is_constrained(spec):
                return True
            seen.add(id(spec))
    return False
