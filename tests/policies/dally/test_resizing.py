"""Sizes of elastic jobs under the flagship: by hand, and what must hold of any run under any policy."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dally.cluster.topology import Capacity
from dally.engine.simulate import Simulation
from dally.model import KIND_NAMES, Costs
from dally.policies.base import Policy
from dally.policies.dally.limits import Limits
from dally.policies.registry import build
from dally.runs.elastic_option import ElasticJobs, sizes_of
from dally.testing import record_of
from dally.testing.invariants import check_record
from dally.testing.strategies import Case, cases, crowds

ONE_S = Costs(0.0, 1.0, 0.0)  # a restart takes 1 s per GPU
MACHINE: list[tuple[tuple[str, ...], int]] = [(("r0",), 8)]
HOUR_S = 3600.0


def elastic(case: Case, policy: Policy, elastic_jobs: list[int], most: float = 2.0) -> Simulation:
    """The case with some jobs elastic, from half their size to twice it, run to its end."""
    simulation = case.simulation(policy)
    total = simulation.state.cluster.topology.total_gpus()
    for index in elastic_jobs:
        job = simulation.jobs[index]
        sizes = sizes_of(int(job.gpus), int(job.group), ElasticJobs(most=most), total)
        job.let_resize(sizes if len(sizes) > 1 else (), None)
    simulation.run(case.until_s)
    return simulation


def changes(simulation: Simulation) -> list[tuple[float, str, int, int]]:
    """When a job was given how many GPUs: (time, kind, job, GPUs)."""
    log = simulation.state.log
    return [
        (log.times[row], KIND_NAMES[log.kinds[row]], int(log.jobs[row]), sum(gpus for _, gpus in log.parts(row)))
        for row in range(len(log))
        if KIND_NAMES[log.kinds[row]] in ("start", "resize", "preempt", "finish")
    ]


def test_a_job_alone_starts_at_its_largest_size() -> None:
    simulation = elastic(Case(MACHINE, [(0.0, 4, 1000.0)], costs=ONE_S), build("dally", {"idle_reserve": "0"}), [0])
    assert changes(simulation) == [(0.0, "start", 0, 8), (500.0, "finish", 0, 0)]


def test_elastic_jobs_keep_their_size_where_that_is_off() -> None:
    simulation = elastic(Case(MACHINE, [(0.0, 4, 1000.0)], costs=ONE_S), build("dally", {"elastic": "off"}), [0])
    assert changes(simulation) == [(0.0, "start", 0, 4), (1000.0, "finish", 0, 0)]


def test_a_job_shrinks_for_a_better_ranked_one_before_it_is_preempted() -> None:
    """The first, 5000 s old, gives up the 4 GPUs that the newcomer asks for, and grows again after it."""
    jobs = [(0.0, 8, 10_000.0), (5000.0, 4, 600.0)]
    simulation = elastic(Case(MACHINE, jobs, costs=ONE_S), build("dally", {"idle_reserve": "0"}), [0])
    assert changes(simulation)[:4] == [
        (0.0, "start", 0, 8), (5000.0, "resize", 0, 4), (5000.0, "start", 1, 4), (5600.0, "finish", 1, 0),
    ]  # fmt: skip
    assert (5600.0, "resize", 0, 8) in changes(simulation)
    assert [int(job.preemptions) for job in simulation.jobs] == [0, 0]
    # 5000 s at full speed, 4 s restart and 596 at half, 8 s restart, and the rest.
    assert simulation.jobs[0].finish_s == pytest.approx(5600.0 + 8.0 + (10_000.0 - 5000.0 - 298.0))


def test_a_job_starts_smaller_where_its_size_is_not_free() -> None:
    """A job that nobody preempts for runs on what is left, and grows when the other has ended."""
    jobs = [(0.0, 6, 1000.0), (10.0, 4, 4000.0)]
    simulation = elastic(Case(MACHINE, jobs, costs=ONE_S), build("dally", {"preemption": "off"}), [1], 1.0)
    assert changes(simulation)[:2] == [(0.0, "start", 0, 6), (10.0, "start", 1, 2)]
    assert (1000.0, "resize", 1, 4) in changes(simulation)


def test_a_job_that_needs_cpus_shrinks_where_that_frees_what_the_other_needs() -> None:
    jobs = [(0.0, 8, 10_000.0), (5000.0, 4, 600.0)]
    each = {"cpus_per_gpu": 4.0}
    case = Case(MACHINE, jobs, costs=ONE_S, capacities=[Capacity(32.0)], constraints={0: each, 1: each})
    simulation = elastic(case, build("dally", {"idle_reserve": "0"}), [0])
    assert changes(simulation)[:3] == [(0.0, "start", 0, 8), (5000.0, "resize", 0, 4), (5000.0, "start", 1, 4)]
    assert (5600.0, "resize", 0, 8) in changes(simulation)


def test_no_job_shrinks_where_the_other_would_lack_cpus_all_the_same() -> None:
    """The first keeps 29 of 32 CPUs at any size: the other gets none by its shrinking, and preempts it."""
    jobs = [(0.0, 8, 10_000.0), (5000.0, 4, 600.0)]
    needs = {0: {"cpus_per_node": 29.0}, 1: {"cpus_per_gpu": 4.0}}
    case = Case(MACHINE, jobs, costs=ONE_S, capacities=[Capacity(32.0)], constraints=needs)
    assert (5000.0, "preempt", 0, 0) in changes(elastic(case, build("dally", {"idle_reserve": "0"}), [0]))


def test_whole_machines_are_given_back_where_a_job_takes_so_many_gpus_of_each() -> None:
    """Of four machines the first has all, 8 GPUs of each; the second asks for two machines."""
    machines: list[tuple[tuple[str, ...], int]] = [(("r0",), 8)] * 4
    jobs = [(0.0, 32, 10_000.0), (5000.0, 16, 600.0)]
    needs = {0: {"gpus_per_node": 8, "nodes_min": 2, "nodes_max": 4}, 1: {"gpus_per_node": 8}}
    case = Case(machines, jobs, costs=ONE_S, capacities=[Capacity(32.0)] * 4, constraints=needs)
    simulation = case.simulation(build("dally", {"idle_reserve": "0"}))
    simulation.jobs[0].let_resize((8, 12, 16, 24, 32, 40), None)
    simulation.run()
    assert simulation.jobs[0].sizes == (16, 24, 32)  # those of 2 to 4 machines
    assert changes(simulation)[:3] == [(0.0, "start", 0, 32), (5000.0, "resize", 0, 16), (5000.0, "start", 1, 16)]


def check(case: Case, name: str, elastic_jobs: list[int]) -> None:
    simulation = elastic(case, build(name), elastic_jobs)
    check_record(record_of(simulation))  # sizes, capacity, work, GPU time, bounds
    moves: dict[int, list[float]] = {}
    log = simulation.state.log
    for row in range(len(log)):
        if KIND_NAMES[log.kinds[row]] in ("resize", "migrate"):
            moves.setdefault(int(log.jobs[row]), []).append(log.times[row])
    for times in moves.values():
        for time_s in times:
            lately = [other for other in times if time_s - HOUR_S < other <= time_s]
            assert name != "dally" or len(lately) <= Limits().moves_per_h


SOME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(cases(constraints_too=False), st.data())
@SOME
def test_sizes_work_and_moves_hold_in_any_run(case: Case, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(case.jobs) - 1), min_size=1, unique=True))
    check(case, "dally", sorted(numbers))


@given(cases(), st.data(), st.sampled_from(["dally", "sia", "pollux"]))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_where_jobs_need_more_than_gpus(case: Case, data: st.DataObject, name: str) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(case.jobs) - 1), min_size=1, unique=True))
    check(case, name, sorted(numbers))


@given(crowds(), st.data())
@SOME
def test_the_same_where_all_jobs_come_at_once(case: Case, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(case.jobs) - 1), min_size=1, unique=True))
    check(case, "dally", sorted(numbers))


@given(
    cases(constraints_too=False), st.sampled_from(["fifo-backfill", "tiresias", "gavel", "gandiva", "dally-paper"])
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_other_policies_run_elastic_jobs_as_rigid_ones(case: Case, name: str) -> None:
    check(case, name, list(range(len(case.jobs))))
