"""What operators say of jobs holds under every policy: first in the queue is first, and any place is any place."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.engine.failures import ListedFailures
from dally.engine.simulate import Simulation
from dally.model import NEVER, RUNNING, WAITING, Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.queue import demand
from dally.policies.registry import POLICIES, build
from dally.testing.invariants import check_record, record_of
from dally.testing.strategies import Case

FEW = settings(
    max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)  # fmt: skip


@st.composite
def crowds(draw: st.DrawFn) -> Case:
    """Jobs of two sizes that come faster than four machines of 4 GPUs take them."""
    jobs = st.tuples(st.integers(0, 60).map(float), st.sampled_from([4, 8]), st.integers(20, 900).map(float))
    found = sorted(draw(st.lists(jobs, min_size=8, max_size=12)), key=lambda job: job[0])
    return Case([((f"r{number % 2}",), 4) for number in range(4)], found, costs=Costs(5.0, 1.0, 0.0))


def say(simulation: Simulation, job: Job, first: bool, delay_until_s: float = NEVER) -> None:
    """An operator says so now, and the policy has its say at once."""
    simulation.state.override(job, first, delay_until_s, simulation.now)
    simulation.happen([], simulation.now)


def set_delay(simulation: Simulation, gpus: int, delay_s: float) -> None:
    """An operator says for how long gangs of that size decline farther places."""
    overrides = simulation.state.policy.delay_overrides
    assert overrides is not None
    overrides.set_s(gpus, delay_s)


def overtaken(simulation: Simulation, first: Job, from_s: float) -> list[str]:
    """Jobs that ask for the same as the first in the queue and got GPUs while it waited, from a moment on."""
    starts = [row for row in record_of(simulation).events if row.kind == "start" and row.time_s >= from_s]
    got_s = min((row.time_s for row in starts if row.job == first.index), default=float("inf"))
    same = {int(job.index) for job in simulation.jobs if demand(job) == demand(first)} - {int(first.index)}
    return [f"{row.job} at {row.time_s}" for row in starts if row.job in same and from_s < row.time_s < got_s]


@pytest.mark.once
@pytest.mark.parametrize("name", POLICIES)
def test_nobody_who_asks_for_the_same_overtakes_the_first_in_line(name: str) -> None:
    @FEW
    @given(crowds(), st.integers(0, 15), st.booleans())
    def holds(case: Case, place: int, at_once: bool) -> None:
        simulation = case.simulation(build(name))
        first = simulation.jobs[place % len(simulation.jobs)]
        if at_once:
            first.prioritized = True
        simulation.go_on(first.submit_s + (0.0 if at_once else 10.0))
        from_s = simulation.now
        waits = first.status == WAITING
        say(simulation, first, True)
        simulation.run(max(case.until_s, from_s))
        check_record(record_of(simulation))
        assert not waits or not overtaken(simulation, first, from_s)

    holds()


def crowd(policy: str, jobs: list[Job]) -> Simulation:
    """Two racks of two machines of 4 GPUs."""
    costs, failures = Costs(0.0, 0.0, 0.0), ListedFailures([])
    return Simulation(jobs, Cluster.grid(2, 2, 4), build(policy), SpeedModel(), costs, failures)


def job(index: int, gpus: int, duration_s: float, submit_s: float = 0.0) -> Job:
    return Job(index, f"j{index}", submit_s, gpus, duration_s)


def test_first_in_line_takes_gpus_from_others_and_keeps_them() -> None:
    """Under srtf the long job would wait for ever shorter ones; put first, it runs as long as it is that."""
    jobs = [job(0, 16, 5000.0), job(1, 16, 10_000.0, 1.0), *(job(n, 16, 100.0, 50.0 * n) for n in range(2, 8))]
    simulation = crowd("srtf", jobs)
    simulation.go_on(150.0)
    assert jobs[2].status == RUNNING
    say(simulation, jobs[1], True)
    simulation.go_on(1000.0)
    assert (jobs[1].start_s, jobs[1].status, jobs[1].preemptions) == (150.0, RUNNING, 0)
    say(simulation, jobs[1], False)
    assert jobs[1].status != RUNNING  # a shorter one has taken its GPUs
    simulation.go_on()
    assert all(one.finish_s > 0.0 for one in jobs)


def test_two_that_are_first_do_not_take_from_each_other() -> None:
    jobs = [job(n, 16, 1000.0 * (n + 1)) for n in range(4)]
    jobs[3].prioritized = jobs[2].prioritized = True
    crowd("srtf", jobs).run()
    assert [one.job_id for one in sorted(jobs, key=lambda one: one.finish_s)] == ["j2", "j3", "j0", "j1"]
    assert sum(int(one.preemptions) for one in jobs) == 0


def scattered(policy: str) -> tuple[Simulation, list[Job]]:
    """A gang of 4 that could start on two machines of different racks, and would rather have one machine."""
    jobs = [*(job(n, 3, 100_000.0) for n in range(4)), job(4, 4, 500.0, 10.0)]
    simulation = crowd(policy, jobs)
    set_delay(simulation, 4, 150.0)
    simulation.go_on(20.0)
    assert jobs[4].status == WAITING
    return simulation, jobs


@pytest.mark.parametrize("policy", ["dally", "dally-paper", "dally-paper-consolidated"])
def test_any_place_from_now_on_or_from_a_moment_on(policy: str) -> None:
    simulation, jobs = scattered(policy)
    say(simulation, jobs[4], False, 0.0)
    assert jobs[4].status == RUNNING
    simulation, jobs = scattered(policy)
    say(simulation, jobs[4], False, 200.0)
    simulation.go_on(2000.0)
    assert jobs[4].start_s == 200.0
    simulation, jobs = scattered(policy)
    set_delay(simulation, 4, 30.0)
    simulation.happen([], simulation.now)
    simulation.go_on(2000.0)
    assert jobs[4].start_s == 40.0
    simulation, jobs = scattered(policy)
    simulation.go_on(2000.0)
    assert jobs[4].start_s == 160.0  # as the timer of its size has it


@pytest.mark.parametrize("policy", ["dally", "dally-paper", "dally-paper-consolidated"])
def test_who_is_told_to_hold_out_does_not_do_so_for_ever_where_nobody_runs(policy: str) -> None:
    """One machine of each rack is down: a gang of 8 finds its GPUs in different racks only."""
    gang = job(0, 8, 500.0, 10.0)
    gang.delay_until_s = 200.0
    down = ListedFailures([(0, 1.0, 9000.0), (2, 1.0, 9000.0)])
    cluster = Cluster.grid(2, 2, 4)
    Simulation([gang], cluster, build(policy), SpeedModel(), Costs(0.0, 0.0, 0.0), down).run()
    assert gang.start_s == 200.0


def test_who_has_timers() -> None:
    assert [name for name in POLICIES if build(name).delay_overrides is not None] == [
        "dally", "dally-paper", "dally-paper-manual", "dally-paper-nowait", "dally-paper-consolidated",
    ]  # fmt: skip
