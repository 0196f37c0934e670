"""Cancels, holds, releases, failed actions and adopted jobs: under every policy, no job is lost or run twice."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.statement import is_constrained
from dally.engine.cycle import cycle, in_order
from dally.engine.executor import Executor
from dally.engine.simulate import Simulation
from dally.engine.state import RETRY_S, State
from dally.errors import PolicyError
from dally.model import (
    ADOPT,
    CANCEL,
    CANCELLED,
    EVICT,
    FAIL,
    FINISH,
    FINISHED,
    HELD,
    HOLD,
    INFINITY,
    KIND_NAMES,
    LEASE,
    RELEASE,
    REPAIR,
    RUNNING,
    START_FAILED,
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
    make_allocation,
)
from dally.perf.base import SpeedModel
from dally.policies.base import Policy
from dally.policies.queue import Queue
from dally.policies.registry import POLICIES, build
from dally.testing import check_record, record_of
from dally.testing.strategies import Case, cases
from tests.examples import many

FREE = Costs(0.0, 0.0, 0.0)


@dataclass
class Moody(Executor):
    """Fails as it likes."""

    chance: Random
    share: float

    def apply(self, action: Action, now: float) -> str:
        return "not today" if self.chance.random() < self.share else ""


def steer(simulation: Simulation, case: Case, seed: int, share: float) -> None:
    """Run the case; now and then somebody cancels, holds, releases, stops or starts a job, or a start failed."""
    chance = Random(seed)
    simulation._executor = Moody(Random(seed + 1), share)
    for _ in range(3000):
        if simulation.state.finished == len(simulation.jobs):
            break
        if chance.random() < 0.3:
            kind = chance.choice([CANCEL, HOLD, RELEASE, RELEASE, START_FAILED, EVICT, ADOPT])
            job = chance.choice(simulation.jobs)
            found = room_for(job, simulation.state.cluster) if kind == ADOPT else None
            if (kind != HOLD or job.status == WAITING) and (kind != ADOPT or found is not None):
                simulation.happen([Event(kind, job, reason="told so", allocation=found)], simulation.now)
        if not simulation.step(case.until_s):
            break
    simulation._executor = Executor()
    for job in simulation.jobs:
        simulation.happen([Event(RELEASE, job)], simulation.now)
    simulation.run(case.until_s)


def room_for(job: Job, cluster: Cluster) -> Allocation | None:
    """Free GPUs on which somebody else might have started a job that waits or is on hold.

    None for a job with constraints: others may break them, and the record is checked for that.
    """
    if is_constrained(job.spec):
        return None
    parts: list[tuple[int, int]] = []
    left = int(job.gpus)
    for machine, free in enumerate(cluster.free[0]):
        if free > 0 and left > 0:
            parts.append((machine, min(left, int(free))))
            left -= parts[-1][1]
    return make_allocation(0, parts) if left == 0 and job.status in (WAITING, HELD) else None


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=many(25))
@example(
    case=Case(
        machines=[(("a", "a"), 1), (("a", "a"), 8), (("a", "a"), 8)],
        jobs=[*[(0.0, 1, 0.0)] * 6, (0.0, 1, 121.0), (0.0, 17, 61.0)],
        outages=[],
        costs=Costs(0.0, 0.0, 0.0, seed=1),
        until_s=float("inf"),
        network="",
        shares=[],
        capacities=[],
        constraints={},
    ),
    seed=0,
    share=0.1,
)  # sia: a job that was to stop makes way only after its preemption failed
@given(case=cases(), seed=st.integers(0, 1000), share=st.sampled_from([0.0, 0.1, 0.6]))
def test_every_policy_copes(name: str, case: Case, seed: int, share: float) -> None:
    simulation = case.simulation(build(name))
    steer(simulation, case, seed, share)
    record = record_of(simulation)
    check_record(record)
    if case.until_s == float("inf") and not case.outages:
        ends = {job.status for job in record.jobs if job.fits}  # what no machines could hold stays on hold
        assert ends <= {"finished", "cancelled"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_held_as_it_came_is_cancelled(name: str) -> None:
    case = Case(
        [((), 4), ((), 4)], [(0.0, 2, 900.0), (0.0, 1, 900.0)], constraints={0: {"include": "m0", "exclude": "m0"}}
    )
    simulation = case.simulation(build(name))
    simulation.step(INFINITY)
    held, other = simulation.jobs
    assert held.status == HELD
    simulation.happen([Event(CANCEL, held)], simulation.now)
    simulation.run(INFINITY)
    assert (held.status, other.status) == (CANCELLED, FINISHED)


@dataclass
class FailsOnce(Executor):
    """The first start of each job fails."""

    failed: set[int]

    def apply(self, action: Action, now: float) -> str:
        index = int(action.job.index)
        if not isinstance(action, Start) or index in self.failed:
            return ""
        self.failed.add(index)
        return "not now"


@pytest.mark.parametrize("name", POLICIES)
def test_who_could_not_be_started_waits_for_the_next_pass(name: str) -> None:
    case = Case([((), 4), ((), 4)], [(0.0, 2, 900.0), (60.0, 3, 900.0)], constraints={0: {"include": "m0"}})
    simulation = case.simulation(build(name))
    simulation._executor = FailsOnce(set())
    simulation.run(INFINITY)
    assert [job.status for job in simulation.jobs] == [FINISHED, FINISHED]
    starts: dict[int, float] = {}
    log = simulation.state.log
    for row in range(len(log)):
        if log.kinds[row] == START_FAILED:
            starts[int(log.jobs[row])] = log.times[row]
    assert len(starts) == 2
    assert all(job.start_s > starts[int(job.index)] for job in simulation.jobs)


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_keeps_a_job_that_is_gone(name: str) -> None:
    case = Case(
        [(("a",), 4), (("b",), 8)],
        [(30.0 * place, 1 + place * 5 % 12, 300.0 + place * 997 % 4000) for place in range(40)],
        costs=Costs(10.0, 1.0, 600.0),
        network="congested",
    )
    simulation = case.simulation(build(name))
    steer(simulation, case, 3, 0.1)
    assert simulation.state.finished == 40
    simulation.happen([], simulation.now)
    simulation.jobs.clear()
    gc.collect()
    mine = [thing for thing in gc.get_objects() if type(thing) is Job and thing.job_id.startswith("j")]
    assert [str(job) for job in mine] == []
    assert simulation.state.policy is not None


# Small cases by hand.


def test_a_job_that_no_machine_could_hold_is_observed_to_run() -> None:
    case = Case([(("a",), 4)], [(0.0, 2, 50.0)], constraints={0: {"features": "ib"}})
    simulation = case.simulation(build("fifo"))
    simulation.step(INFINITY)
    job = simulation.jobs[0]
    assert job.status == HELD
    simulation.happen([Event(ADOPT, job, allocation=make_allocation(0, [(0, 2)]))], simulation.now)
    assert job.status == RUNNING
    simulation.run()
    assert (job.status, job.finish_s) == (FINISHED, 50.0)


class Refuses(Executor):
    """Fails these kinds of action."""

    def __init__(self, *kinds: type[Action]) -> None:
        self.kinds = kinds
        self.asked: list[Action] = []

    def apply(self, action: Action, now: float) -> str:
        self.asked.append(action)
        return "no such partition" if isinstance(action, self.kinds) else ""


def state_of(policy: Policy, racks: int = 1) -> State:
    return State(Cluster.grid(racks, 1, 8), policy, SpeedModel(), FREE)


def rows(state: State) -> list[tuple[float, str, int]]:
    log = state.log
    return [(log.times[row], KIND_NAMES[log.kinds[row]], int(log.jobs[row])) for row in range(len(log))]


def test_a_start_that_fails_is_tried_again() -> None:
    state = state_of(build("fifo"))
    first, second = Job(0, "a", 0.0, 8, 10.0), Job(1, "b", 0.0, 8, 10.0)
    executor = Refuses(Start)
    wakeup_s = cycle(state, [Event(SUBMIT, first), Event(SUBMIT, second)], 0.0, executor)
    assert [action.job.job_id for action in executor.asked] == ["a", "b"]  # each once in this pass
    assert wakeup_s == RETRY_S
    assert rows(state)[2:] == [(0.0, "start_failed", 0), (0.0, "start_failed", 1)]
    assert state.log.reasons == {2: "no such partition", 3: "no such partition"}
    assert [job.job_id for job in state.queue] == ["a", "b"]
    assert cycle(state, [], RETRY_S, Executor()) == float("inf")
    assert (first.status, first.start_s, second.status) == (RUNNING, RETRY_S, WAITING)


def test_a_start_that_turns_out_to_have_failed() -> None:
    state = state_of(build("fifo"))
    job = Job(0, "a", 0.0, 8, 100.0)
    cycle(state, [Event(SUBMIT, job)], 0.0, Executor())
    wakeup_s = cycle(state, [Event(START_FAILED, job, reason="node lost")], 5.0, Executor())
    assert (job.status, job.start_s, job.lost_s, job.work_s, job.overhead_s) == (WAITING, -1.0, 0.0, 0.0, 5.0)
    assert (state.log.reasons, wakeup_s) == ({2: "node lost"}, 5.0 + RETRY_S)
    cycle(state, [], 6.0, Executor())
    assert (job.status, job.start_s, job.restart_due_s) == (RUNNING, 6.0, 0.0)


class Swaps(Policy):
    """Preempts or migrates whoever runs, as it is told."""

    def __init__(self, what: type[Action]) -> None:
        self._what = what

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for job in list(cluster.running.values()):
            yield Migrate(job, make_allocation(0, [(1, 8)])) if self._what is Migrate else Preempt(job)
        for job in queue:
            yield Start(job, make_allocation(0, [(0, 8)]))


@pytest.mark.parametrize(("what", "kind"), [(Preempt, "preempt_failed"), (Migrate, "migrate_failed")])
def test_a_job_that_cannot_be_stopped_goes_on(what: type[Action], kind: str) -> None:
    state = state_of(Swaps(what), racks=2)
    job = Job(0, "a", 0.0, 8, 100.0)
    cycle(state, [Event(SUBMIT, job)], 0.0, Executor())
    cycle(state, [], 5.0, Refuses(what))
    assert rows(state)[2:] == [(5.0, kind, 0)]
    assert job.allocation is not None
    assert (job.status, job.allocation.parts()) == (RUNNING, [(0, 8)])
    assert (job.preemptions, job.migrations, job.work_s + 5.0 * job.rate) == (0, 0, 5.0)


def test_an_impossible_action_is_not_handed_to_the_executor() -> None:
    state = state_of(Swaps(Migrate))  # there is no machine 1
    executor = Refuses()
    cycle(state, [Event(SUBMIT, Job(0, "a", 0.0, 8, 100.0))], 0.0, executor)
    with pytest.raises(PolicyError, match="not free"):
        cycle(state, [], 1.0, executor)
    assert [type(action) for action in executor.asked] == [Start]


class Endless(Policy):
    """Starts and preempts one job for ever."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        while True:
            for job in queue:
                yield Start(job, make_allocation(0, [(0, int(job.gpus))]))
            for job in list(cluster.running.values()):
                yield Preempt(job)


def test_a_pass_without_end_is_an_error() -> None:
    with pytest.raises(PolicyError, match=r"Endless goes on without end in one pass at 3 s: .* \(a\);"):
        cycle(state_of(Endless()), [Event(SUBMIT, Job(0, "a", 3.0, 8, 10.0))], 3.0, Executor())


def test_events_of_an_instant_happen_in_turn() -> None:
    kinds = [RELEASE, ADOPT, SUBMIT, HOLD, TIMER, LEASE, REPAIR, FAIL, CANCEL, EVICT, START_FAILED, FINISH]
    found = [int(event.kind) for event in in_order([Event(kind) for kind in kinds])]
    assert found == [FINISH, EVICT, START_FAILED, CANCEL, FAIL, REPAIR, LEASE, TIMER, SUBMIT, RELEASE, ADOPT, HOLD]


def test_a_held_job_waits_until_it_is_released() -> None:
    state = state_of(build("fifo"))
    held, other = Job(0, "a", 0.0, 8, 10.0), Job(1, "b", 0.0, 8, 10.0)
    cycle(state, [Event(HOLD, held), Event(SUBMIT, held), Event(SUBMIT, other)], 0.0, Executor())
    assert (str(held), other.status, len(state.queue)) == ("Job(a, 8 GPUs, held)", RUNNING, 0)
    cycle(state, [Event(FINISH, other), Event(RELEASE, held)], 10.0, Executor())
    assert (held.status, held.lost_s, held.start_s) == (RUNNING, 0.0, 10.0)
    assert [kind for _, kind, job in rows(state) if job == 0] == ["submit", "hold", "release", "start"]


@pytest.mark.parametrize("cancel_s", [-1.0, 0.0, 5.0])
def test_a_cancelled_job_is_gone(cancel_s: float) -> None:
    state = state_of(build("fifo"))
    job, other = Job(0, "a", 0.0, 8, 10.0), Job(1, "b", 0.0, 8, 10.0)
    if cancel_s < 0.0:
        cycle(state, [Event(CANCEL, job)], -1.0, Executor())
    cycle(state, [Event(SUBMIT, job), Event(SUBMIT, other)], 0.0, Executor())
    cycle(state, [Event(CANCEL, job), Event(FINISH, job)] if cancel_s == 0.0 else [], 1.0, Executor())
    cycle(state, [Event(CANCEL, job)], 5.0, Executor())
    ends = {0.0: "finished"}  # of the same instant, the finish counts
    assert str(job) == f"Job(a, 8 GPUs, {ends.get(cancel_s, 'cancelled')})"
    assert (other.status, int(state.finished)) == (RUNNING, 1)


@pytest.mark.parametrize("name", POLICIES)
def test_jobs_found_waiting_and_running_are_adopted(name: str) -> None:
    state = state_of(build(name))
    running, waiting = Job(0, "a", 10.0, 8, 100.0), Job(1, "b", 20.0, 8, 10.0)
    running.placed_s = running.since_s = 40.0
    state.adopt(running, 50.0, make_allocation(0, [(0, 8)]))
    state.adopt(waiting, 50.0)
    assert (running.status, running.start_s, running.done_s(50.0)) == (RUNNING, 40.0, 10.0)
    assert (waiting.status, waiting.lost_s) == (WAITING, 20.0)
    assert cycle(state, [Event(FINISH, running)], 140.0, Executor()) >= 140.0
    if name not in ("gavel", "a-srpt"):  # these start it at the next round, or when its turn has come
        assert (waiting.status, waiting.start_s) == (RUNNING, 140.0)
