"""Jobs that nobody can stop: no policy asks for that, and whoever else may be stopped is weighed as before."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.engine.checking import NON_PREEMPTIBLE
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.errors import PolicyError
from dally.model import (
    FINISHED,
    MIGRATE_FAILED,
    PREEMPT_FAILED,
    RUNNING,
    WAITING,
    Action,
    Allocation,
    Costs,
    Job,
    Migrate,
    Preempt,
    Start,
)
from dally.perf.base import SpeedModel
from dally.policies.base import Policy
from dally.policies.gate.pooled import make_gate
from dally.policies.placement.best_fit import best_fit
from dally.policies.queue import Queue
from dally.policies.registry import POLICIES, Built, build
from dally.quotas.tree import Budget, QueueNode, QueueTree, Quota
from dally.testing.invariants import check_record, record_of
from dally.testing.strategies import Case, cases
from tests.policies.dally import test_by_hand
from tests.policies.gate import test_types
from tests.policies.test_overrides import crowds

SHARED = [name for name in POLICIES if name in ("srtf", "tiresias", "gandiva", "gavel", "dally", "dally-paper")]
FREE = Costs(0.0, 0.0, 0.0)

FEW = partial(
    settings, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)  # fmt: skip
Flips = list[tuple[float, int, bool]]  # from a moment on a job stays, or does not any more


def flips(longest_s: int) -> st.SearchStrategy[Flips]:
    moments = st.integers(0, longest_s).map(float)
    return st.lists(st.tuples(moments, st.integers(0, 15), st.sampled_from([True, True, False])), max_size=8).map(
        sorted
    )


def often(name: str) -> dict[str, str]:
    """Settings by which the policy takes GPUs away every 30 s rather than every hour."""
    return {param.name: "30" for param in POLICIES[name].params if param.period}


def set_non_preemptible(simulation: Simulation, job: Job, stays: bool = True) -> None:
    simulation.state.set_non_preemptible(job, stays, simulation.now)
    simulation.happen([], simulation.now)


def in_vain(simulation: Simulation) -> bool:
    """Whether somebody was to be stopped or moved who could not be."""
    return any(kind in (PREEMPT_FAILED, MIGRATE_FAILED) for kind in simulation.state.log.kinds)


def run_to_the_end(simulation: Simulation, demanded: Flips, until_s: float = float("inf")) -> None:
    """With these flips; nobody who stays is ever to be stopped."""
    for at_s, place, stays in demanded:
        simulation.go_on(min(at_s, until_s))
        set_non_preemptible(simulation, simulation.jobs[place % len(simulation.jobs)], stays)
    simulation.run(max(until_s, simulation.now))
    assert not in_vain(simulation)


@pytest.mark.once
@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_asks_to_stop_a_job_that_stays(name: str) -> None:
    @FEW(max_examples=4)
    @given(crowds() | cases(longest_s=900), flips(900))
    def holds(case: Case, demanded: Flips) -> None:
        simulation = case.simulation(build(name, often(name)))
        run_to_the_end(simulation, demanded, case.until_s)
        check_record(record_of(simulation))
        assert case.until_s < float("inf") or all(job.status == FINISHED for job in simulation.jobs)

    holds()


@pytest.mark.once
@pytest.mark.parametrize("name", SHARED)
def test_nor_does_anybody_where_teams_share_the_cluster(name: str) -> None:
    @FEW(max_examples=4)
    @given(crowds(), flips(900))
    def holds(case: Case, demanded: Flips) -> None:
        budget = Budget(0.5, 3600.0)
        nodes = [QueueNode("a", {"": Quota(8.0)}), QueueNode("b", budget=budget), QueueNode("c")]
        topology = grid(2, 2, 4)
        shared = make_gate(QueueTree(nodes), Built(name, often(name)), topology)
        jobs = [Job(i, f"j{i}", *row) for i, row in enumerate(case.jobs)]
        for job in jobs:
            job.spec = replace(job.spec, queue="bca"[int(job.index) % 3])
        run_to_the_end(Simulation(jobs, Cluster(topology), shared, SpeedModel(), case.costs, Failures()), demanded)

    holds()


@pytest.mark.once
@pytest.mark.parametrize("name", SHARED)
def test_nor_where_there_are_several_types_of_gpu(name: str) -> None:
    @FEW(max_examples=4)
    @given(test_types.cases(), flips(6000))
    def holds(case: test_types.Typed, demanded: Flips) -> None:
        run_to_the_end(case.simulation(name, dict.fromkeys(often(name), "300")), demanded)

    holds()


# Who gives way instead.


def two_machines(policy: str | Policy, jobs: list[Job], given: dict[str, str] | None = None) -> Simulation:
    """Of 4 GPUs each."""
    made = build(policy, given) if isinstance(policy, str) else policy
    return Simulation(jobs, Cluster.grid(1, 2, 4), made, SpeedModel(), FREE, Failures())


def job(index: int, gpus: int, duration_s: float, submit_s: float = 0.0, queue: str = "") -> Job:
    found = Job(index, f"j{index}", submit_s, gpus, duration_s)
    found.spec = replace(found.spec, queue=queue)
    return found


@pytest.mark.parametrize("in_team", [False, True])
@pytest.mark.parametrize("name", ["srtf", "srsf", "las", "tiresias", "gandiva", "gavel", "dally", "dally-paper"])
def test_the_next_one_gives_way_in_its_place(name: str, in_team: bool) -> None:
    """Of two that run one would give way; it stays, so the other does; freed, it may lose its GPUs again."""

    def run(stays: list[int]) -> tuple[list[Job], Simulation]:
        jobs = [job(0, 4, 90_000.0, 0.0, "a"), job(1, 4, 80_000.0, 1.0, "a"), job(2, 4, 100.0, 4000.0, "a")]
        made = Built(name, often(name))
        team = make_gate(QueueTree([QueueNode("a")]), made, grid(1, 2, 4))
        simulation = two_machines(team if in_team else made(), jobs)
        simulation.go_on(3500.0)
        for place in stays:
            set_non_preemptible(simulation, jobs[place])
        simulation.go_on(6000.0)
        return jobs, simulation

    jobs, _ = run([])
    (loser,) = [place for place in (0, 1) if jobs[place].preemptions > 0][:1]
    assert jobs[2].start_s > 0.0
    jobs, simulation = run([loser])
    assert jobs[2].start_s > 0.0
    assert (jobs[loser].preemptions, jobs[1 - loser].preemptions > 0) == (0, True)
    jobs, simulation = run([0, 1])
    assert (jobs[2].status, jobs[0].preemptions, jobs[1].preemptions) == (WAITING, 0, 0)
    set_non_preemptible(simulation, jobs[loser], False)
    simulation.go_on(15_000.0)
    assert (jobs[2].status, jobs[1 - loser].preemptions) == (FINISHED, 0)
    assert jobs[loser].preemptions > 0


@pytest.mark.parametrize("policy", ["fifo-backfill", "srtf", "dally"])
def test_another_gives_back_what_was_lent(policy: str) -> None:
    nodes = [QueueNode("lender", {"": Quota(4.0)}), QueueNode("other", min_runtime_s=0.0)]
    topology = grid(1, 2, 4)
    shared = make_gate(QueueTree(nodes), Built(policy, {}), topology)
    jobs = [job(0, 4, 90_000.0, 0.0, "other"), job(1, 4, 80_000.0, 1.0, "other"), job(2, 4, 90.0, 50.0, "lender")]
    jobs[1].non_preemptible = True  # the latest placed, which would be stopped
    simulation = Simulation(jobs, Cluster(topology), shared, SpeedModel(), FREE, Failures())
    simulation.go_on(60.0)
    assert [one.status for one in jobs] == [WAITING, RUNNING, RUNNING]


def test_a_budget_that_is_used_up_does_not_stop_them() -> None:
    topology = grid(1, 2, 4)
    tree = QueueTree([QueueNode("a", budget=Budget(1.0, 86_400.0))])
    jobs = [job(0, 4, 9000.0, 0.0, "a"), job(1, 4, 9000.0, 0.0, "a")]
    jobs[0].non_preemptible = True
    shared = make_gate(tree, Built("fifo", {}), topology)
    Simulation(jobs, Cluster(topology), shared, SpeedModel(), FREE, Failures()).run(2000.0)
    assert [one.status for one in jobs] == [RUNNING, WAITING]


def test_gangs_that_stay_are_not_moved_closer() -> None:
    """As in test_baselines.py: a gang of 8 in two racks, and one of them is free from 10 s on."""
    jobs = [job(0, 4, 10.0), job(1, 4, 10.0), job(2, 4, 90.0), job(3, 8, 80.0)]
    jobs[3].non_preemptible = True
    case = Case([((f"r{number // 2}",), 4) for number in range(6)], [], costs=FREE)
    simulation = case.simulation(build("gandiva", {"tier": "any"}))
    simulation.jobs += jobs
    simulation.go_on(50.0)
    assert (jobs[3].tier, jobs[3].migrations, in_vain(simulation)) == (2, 0, False)
    set_non_preemptible(simulation, jobs[3], False)
    assert (jobs[3].tier, jobs[3].migrations) == (1, 1)


def test_nor_to_faster_gpus() -> None:
    machines = (("a", "H100", 4), ("a", "V100", 4))
    rows = ((0.0, 4, 5000.0, "H100"), (10.0, 4, 9000.0, ""))
    simulation = test_types.Typed(machines, rows, costs=FREE).simulation("dally")
    simulation.jobs[1].non_preemptible = True
    simulation.run()
    assert (simulation.jobs[1].migrations, in_vain(simulation)) == (0, False)  # it does in test_types


def test_nor_out_of_the_way_of_others() -> None:
    """As in dally/test_by_hand.py, where a machine is cleared by moving the first job: now it is the third."""
    simulation = Case(test_by_hand.GRID, test_by_hand.GAPS, costs=FREE).simulation(
        build("dally", {"scatter": "off"})
    )
    simulation.go_on(150.0)
    set_non_preemptible(simulation, simulation.jobs[0])
    simulation.run()
    assert [one.migrations for one in simulation.jobs] == [0, 0, 1, 0, 0, 0]


def test_dally_serves_a_gang_farther_apart_where_those_who_stay_leave_it_no_domain() -> None:
    """A gang of 4 whose patience has ended; on each machine somebody stays, and others could be stopped."""
    jobs = [*(job(n, 1, 9e6) for n in range(8)), job(8, 4, 9e6, 20.0)]
    simulation = two_machines("dally", jobs, {"patience_s": "3600"})
    simulation.go_on(10.0)
    staying = [next(one for one in jobs if _machine(one) == machine) for machine in (0, 1)]
    for one in staying:
        set_non_preemptible(simulation, one)
    simulation.go_on(5000.0)
    assert (jobs[8].start_s > 0.0, [one.preemptions for one in staying]) == (True, [0, 0])


def _machine(job: Job) -> int:
    return -1 if job.allocation is None else int(job.allocation.machines[0])


def test_it_is_known_to_copies_and_to_another_policy() -> None:
    """A future is a copy of the present, and a what-if may try another policy on it."""
    jobs = [job(0, 4, 90_000.0), job(1, 4, 80_000.0, 1.0), job(2, 4, 100.0, 4000.0)]
    simulation = two_machines("fifo", jobs)
    simulation.go_on(3500.0)
    set_non_preemptible(simulation, jobs[0])
    copy: Simulation = pickle.loads(pickle.dumps(simulation))
    assert [one.non_preemptible for one in copy.jobs] == [True, False, False]
    for one in (simulation, copy):
        one.change_policy(build("srtf"))
        one.go_on(4050.0)
        assert [each.status for each in one.jobs] == [RUNNING, WAITING, RUNNING]


class Stubborn(Policy):
    """Stops or moves the first job for whoever waits, whatever it is told."""

    def __init__(self, moves: bool) -> None:
        self._moves = moves

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        return self._pass(queue, cluster)

    def _pass(self, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for waiting in list(queue):
            running: Job | None = next(iter(cluster.running.values()), None)
            place: Allocation | None = best_fit(cluster, 0, waiting.gpus)
            if running is not None and place is not None and self._moves:
                yield Migrate(running, place)
            elif running is not None:
                yield Preempt(running)
            place = best_fit(cluster, 0, waiting.gpus)
            if place is not None:
                yield Start(waiting, place)


@pytest.mark.parametrize(("moves", "kind"), [(False, "preempt_failed"), (True, "migrate_failed")])
def test_a_policy_that_asks_all_the_same_is_refused(moves: bool, kind: str) -> None:
    sizes = (4, 4) if moves else (4, 4, 4)
    jobs = [job(n, gpus, 500.0, 10.0 * n) for n, gpus in enumerate(sizes)]
    jobs[0].non_preemptible = True
    simulation = two_machines(Stubborn(moves), jobs)
    simulation.run()
    record = record_of(simulation)
    check_record(record)
    refused = [row for row in record.events if row.kind == kind]
    assert {(row.job, row.reason) for row in refused} == {(0, NON_PREEMPTIBLE)}
    assert [one.status for one in jobs] == [FINISHED] * len(jobs)


def test_one_that_does_not_run_cannot_be_stopped_in_any_case() -> None:
    class Confused(Policy):
        def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
            return [Preempt(waiting) for waiting in queue]

    with pytest.raises(PolicyError, match="does not run"):
        two_machines(Confused(), [job(0, 4, 500.0)]).run()
