"""The virtual clock: jump from event to event and run a scheduling cycle at each."""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.engine.cycle import cycle
from dally.engine.failures import Failures
from dally.engine.state import SAMPLE_EVERY_S, State
from dally.heap import IndexedHeap
from dally.model import FAIL, INFINITY, LEASE, REPAIR, SUBMIT, TIMER, Costs, Event, Job
from dally.perf.base import SpeedModel
from dally.policies.base import Policy

CYCLES_PER_REPORT = 512  # between two calls of the progress callback


class Simulation:
    """One run. `jobs` are in order of submission and numbered by it."""

    __slots__ = ("_arrived", "_failures", "_outages", "_wakeup_s", "cycles", "jobs", "now", "state", "stuck")

    def __init__(
        self,
        jobs: list[Job],
        cluster: Cluster,
        policy: Policy,
        speed: SpeedModel,
        costs: Costs,
        failures: Failures,
        sample_every_s: float = SAMPLE_EVERY_S,
    ) -> None:
        self.jobs: list[Job] = jobs
        self.state: State = State(cluster, policy, speed, costs, sample_every_s)
        self.now: float = jobs[0].submit_s if jobs else 0.0
        self.cycles: i64 = 0
        self.stuck: bool = False  # stopped with jobs that the policy would never start
        self._arrived: i64 = 0
        self._wakeup_s: float = INFINITY
        self._failures: Failures = failures
        self._outages: IndexedHeap = IndexedHeap()  # by machine; the tie is FAIL or REPAIR
        for machine in range(cluster.topology.machine_count()):
            fail_s = failures.next_fail_s(machine, self.now)
            if fail_s < INFINITY:
                self._outages.put(machine, fail_s, float(FAIL))

    def run(self, until_s: float = INFINITY, report: Callable[[Simulation], None] | None = None) -> None:
        """Go on until every job is done, nothing more can happen, or the clock would pass `until_s`."""
        while self.state.finished < len(self.jobs):
            if not self.step(until_s):
                break
            if report is not None and self.cycles % CYCLES_PER_REPORT == 0:
                report(self)
        self._stop(until_s)
        if report is not None:
            report(self)

    def step(self, until_s: float = INFINITY) -> bool:
        """Jump to the next event and run a cycle; False when there is none by `until_s`."""
        next_s = self._next_s()
        if next_s > until_s or next_s == INFINITY or self._is_stuck():
            return False
        self.now = next_s
        self.cycles += 1
        self._wakeup_s = cycle(self.state, self._collect(next_s), next_s)
        if self._wakeup_s <= next_s:
            self._wakeup_s = INFINITY  # it had its say at this very instant
        return True

    def _next_s(self) -> float:
        next_s = self._wakeup_s
        if self._arrived < len(self.jobs):
            next_s = min(next_s, self.jobs[self._arrived].submit_s)
        due = self.state.due
        if len(due) > 0:
            next_s = min(next_s, due.key(due.first()))
        outages = self._outages
        if len(outages) > 0:
            next_s = min(next_s, outages.key(outages.first()))
        return next_s

    def _collect(self, now: float) -> list[Event]:
        """Everything that happens at `now`, in the order of the event kinds."""
        events: list[Event] = []
        due = self.state.due
        leases: list[Event] = []
        while len(due) > 0 and due.key(due.first()) <= now:
            kind = int(due.tie(due.first()))
            event = Event(kind, self.jobs[due.pop()])
            if kind == LEASE:
                leases.append(event)
            else:
                events.append(event)
        self._collect_outages(now, events)
        events.extend(leases)
        if self._wakeup_s <= now:
            events.append(Event(TIMER))
        while self._arrived < len(self.jobs) and self.jobs[self._arrived].submit_s <= now:
            events.append(Event(SUBMIT, self.jobs[self._arrived]))
            self._arrived += 1
        return events

    def _collect_outages(self, now: float, events: list[Event]) -> None:
        outages = self._outages
        while len(outages) > 0 and outages.key(outages.first()) <= now:
            machine = outages.first()
            if int(outages.tie(machine)) == FAIL:
                events.append(Event(FAIL, None, machine))
                outages.put(machine, self._failures.next_repair_s(machine, now), float(REPAIR))
            else:
                events.append(Event(REPAIR, None, machine))
                outages.put(machine, self._failures.next_fail_s(machine, now), float(FAIL))

    def _is_stuck(self) -> bool:
        """Whether only outages are left to come though every machine is up: nothing will ever start."""
        return (
            len(self.state.cluster.running) == 0
            and self._arrived == len(self.jobs)
            and self._wakeup_s == INFINITY
            and 1 not in self.state.cluster.down
        )

    def _stop(self, until_s: float) -> None:
        """Bring the books of running jobs up to the moment the clock stops."""
        unfinished = self.state.finished < len(self.jobs)
        if unfinished and until_s < INFINITY:
            self.now = max(self.now, until_s)
        self.stuck = unfinished and self.now < until_s
        self.state.catch_up(self.now)
