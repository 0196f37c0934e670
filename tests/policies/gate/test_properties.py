"""What holds for every tree of queues, every policy and all jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.engine.snapshot import load, save
from dally.model import FINISHED, INFINITY, Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.gate.gate import Gate
from dally.policies.gate.pooled import make_gate
from dally.policies.registry import POLICIES, Built
from dally.quotas.tree import Budget, QueueNode, QueueTree, Quota
from tests.policies.gate.ledger import moments

HOUR_S = 3600.0
NAMES = sorted(POLICIES)
pytestmark = pytest.mark.once  # what is compiled of it is the queue, and that has tests of its own


@dataclass(frozen=True)
class Shared:
    """A small cluster, its queues and its jobs."""

    nodes: tuple[QueueNode, ...]
    jobs: tuple[tuple[float, int, float, str], ...]  # submit_s, gpus, duration_s, queue
    machines: tuple[int, int, int] = (1, 1, 16)
    until_s: float = INFINITY

    @property
    def tree(self) -> QueueTree:
        return QueueTree(list(self.nodes))

    def run(self, policy: str) -> Simulation:
        jobs = [Job(i, f"j{i}", row[0], row[1], row[2]) for i, row in enumerate(self.jobs)]
        for job, row in zip(jobs, self.jobs, strict=True):
            job.spec = replace(job.spec, queue=row[3])
        topology = grid(*self.machines)
        shared = make_gate(self.tree, Built(policy, {}), topology)
        simulation = Simulation(jobs, Cluster(topology), shared, SpeedModel(), Costs(), Failures())
        simulation.run(self.until_s)
        return simulation


def quotas(total: int) -> st.SearchStrategy[Quota]:
    """Guarantees up to a part of the cluster, limits above, and what is lent of them."""
    whole = st.integers(0, total)
    return st.builds(
        lambda guarantee, more, lends: Quota(guarantee, guarantee + more if more else INFINITY, lends),
        whole.map(float), st.sampled_from([0, 4, 8]), st.sampled_from([INFINITY, INFINITY, 0.0, 2.0]),
    )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, machines: tuple[int, int, int] = (2, 2, 4)) -> Shared:
    """Two to four leaves, maybe below a parent; gangs that fit the cluster; limits may be too low for some."""
    total = machines[0] * machines[1] * machines[2]
    count = draw(st.integers(2, 4))
    nodes: list[QueueNode] = []
    if draw(st.booleans()):
        limit = draw(st.sampled_from([INFINITY, float(total // 2)]))
        nodes.append(QueueNode("above", {"": Quota(limit=limit)}))
    for number in range(count):
        above = "above/" if nodes and nodes[0].path == "above" and number < 2 else ""
        budget = draw(st.none() | st.builds(Budget, st.sampled_from([1.0, 8.0]), st.just(2 * HOUR_S)))
        nodes.append(
            QueueNode(
                f"{above}q{number}",
                {"": draw(quotas(total // count))},
                weight=draw(st.sampled_from([1.0, 2.0, 5.0])),
                priority=draw(st.sampled_from([0.0, 0.0, 1.0])),
                half_life_s=draw(st.sampled_from([600.0, 86400.0])),
                min_runtime_s=draw(st.sampled_from([0.0, 60.0, 600.0])),
                budget=budget,
            )
        )
    leaves = [node.path for node in nodes if node.path != "above"]
    submits = st.integers(0, 3000).map(float)
    sizes = st.sampled_from([1, 1, 2, 4, 8]).filter(lambda gpus: gpus <= total)
    rows = st.tuples(submits, sizes, st.sampled_from([10.0, 300.0, 2000.0, 9000.0]), st.sampled_from(leaves))
    jobs = draw(st.lists(rows, min_size=1, max_size=14))
    return Shared(tuple(nodes), tuple(sorted(jobs)), machines, until_s=12 * HOUR_S)


@given(case=cases(), policy=st.sampled_from(NAMES))
@settings(max_examples=30, deadline=None)
def test_no_limit_and_no_budget_is_exceeded(case: Shared, policy: str) -> None:
    simulation = case.run(policy)
    tree = case.tree
    spent: dict[tuple[str, int], float] = {}
    before_s = 0.0
    held_before: dict[str, int] = {}
    for now in moments(simulation, tree):
        assert now.free >= 0
        for path, held in now.held.items():
            assert held <= tree.nodes[path].quotas[""].limit, (now.time_s, path)
        for path, held in held_before.items():
            budget = tree.nodes[path].budget
            if budget is not None:
                _spend(spent, path, budget, held, before_s, now.time_s)
        before_s, held_before = now.time_s, dict(now.held)
    for (path, _), gpu_s in spent.items():
        budget = tree.nodes[path].budget
        assert budget is not None
        assert gpu_s <= budget.gpu_hours * HOUR_S * (1.0 + 1e-6)


def _spend(
    spent: dict[tuple[str, int], float], path: str, budget: Budget, held: int, from_s: float, to_s: float
) -> None:
    while from_s < to_s:
        window = int(from_s // budget.window_s)
        until_s = min(to_s, (window + 1) * budget.window_s)
        spent[path, window] = spent.get((path, window), 0.0) + held * (until_s - from_s)
        from_s = until_s


@st.composite
def unlimited(draw: st.DrawFn) -> Shared:
    """Queues that may have everything, and gangs up to the whole cluster."""
    count = draw(st.integers(1, 3))
    nodes = [
        QueueNode(
            f"q{number}",
            {"": Quota(float(draw(st.integers(0, 16 // count))))},
            weight=draw(st.sampled_from([1.0, 2.0])),
            priority=draw(st.sampled_from([0.0, 0.0, 1.0])),
            min_runtime_s=draw(st.sampled_from([0.0, 60.0, 600.0])),
        )
        for number in range(count)
    ]
    rows = st.tuples(
        st.integers(0, 3000).map(float), st.integers(1, 16), st.sampled_from([5.0, 300.0, 2000.0]),
        st.sampled_from([node.path for node in nodes]),
    )  # fmt: skip
    jobs = draw(st.lists(rows, min_size=1, max_size=12))
    return Shared(tuple(nodes), tuple(sorted(jobs)), (2, 2, 4))


@given(case=unlimited(), policy=st.sampled_from(NAMES), flagship=st.booleans())
@settings(max_examples=80, deadline=None)
def test_everybody_ends(case: Shared, policy: str, flagship: bool) -> None:
    simulation = case.run("dally" if flagship else policy)
    assert [job.job_id for job in simulation.jobs if job.status != FINISHED] == []


def test_a_gang_above_what_its_queue_is_due_starts_on_an_empty_cluster() -> None:
    rows = ((0.0, 12, 1000.0, "a"), (0.0, 12, 1000.0, "b"))
    simulation = Shared((QueueNode("a"), QueueNode("b")), rows, (1, 2, 8)).run("dally")
    assert [job.start_s for job in simulation.jobs] == [0.0, 1000.0]


def test_nobody_is_stopped_in_vain_for_one_of_his_own_queue() -> None:
    """Each queue is due half, a holds all: with a's long job stopped, its short one gets the GPUs."""
    nodes = (QueueNode("a", min_runtime_s=HOUR_S), QueueNode("b", min_runtime_s=HOUR_S))
    rows = ((0.0, 16, 3000.0, "a"), (400.0, 16, 5.0, "b"), (500.0, 16, 5.0, "a"))
    long, _, short = Shared(nodes, rows).run("srtf").jobs
    assert (short.start_s, int(long.preemptions)) == (500.0, 1)


def test_a_budget_of_others_keeps_no_run_from_ending() -> None:
    nodes = (QueueNode("a", hold=True), QueueNode("b", budget=Budget(1.0, HOUR_S)))
    simulation = Shared(nodes, ((0.0, 1, 10.0, "a"), (0.0, 1, 10.0, "b"))).run("fifo")
    assert (simulation.stuck, simulation.jobs[1].finish_s) == (True, 10.0)


@given(case=cases(), policy=st.sampled_from(NAMES))
@settings(max_examples=20, deadline=None)
def test_who_is_stopped_held_too_much_and_had_run_long_enough(case: Shared, policy: str) -> None:
    simulation = case.run(policy)
    shared = simulation.state.policy
    assert isinstance(shared, Gate)
    for taken in shared.reclaimed:
        assert taken.held > taken.due
        assert taken.ran_s >= case.tree.nodes[taken.loser_queue].min_runtime_s - 1e-6
        assert taken.loser_queue != taken.winner_queue


@st.composite
def guaranteed(draw: st.DrawFn) -> Shared:
    """Each queue has gangs of one size, and a guarantee that holds some; nothing else limits it. One machine."""
    nodes: list[QueueNode] = []
    rows: list[tuple[float, int, float, str]] = []
    left = 16
    for number in range(draw(st.integers(2, 3))):
        gpus = draw(st.sampled_from([1, 2, 4]))
        guarantee = min(left, gpus * draw(st.integers(0, 3)))
        left -= guarantee
        runs_s = draw(st.sampled_from([0.0, 120.0, 900.0]))
        nodes.append(QueueNode(f"q{number}", {"": Quota(float(guarantee))}, min_runtime_s=runs_s))
        lengths_s = st.sampled_from([50.0, 700.0, 5000.0])
        times = draw(st.lists(st.tuples(st.integers(0, 2000).map(float), lengths_s), max_size=10))
        rows += [(at_s, gpus, length_s, f"q{number}") for at_s, length_s in times]
    return Shared(tuple(nodes), tuple(sorted(rows) or [(0.0, 1, 1.0, "q0")]))


@given(case=guaranteed(), policy=st.sampled_from(NAMES))
@settings(max_examples=40, deadline=None)
def test_nobody_within_its_guarantee_waits_for_a_borrower(case: Shared, policy: str) -> None:
    """Longer than the longest `min_runtime` and one restart."""
    simulation = case.run(policy)
    tree = case.tree
    bound_s = max(node.min_runtime_s for node in case.nodes) + 16.0 + 1e-3
    since: dict[int, float] = {}
    for now in moments(simulation, tree):
        kept = set()
        for path, waiting in now.waiting.items():
            others = [other for other in tree.nodes if other != path]
            borrowed = any(now.held.get(other, 0) > tree.nodes[other].quotas[""].guarantee for other in others)
            for index, job in waiting.items():
                within = now.held.get(path, 0) + int(job.gpus) <= tree.nodes[path].quotas[""].guarantee
                if within and borrowed and now.free < job.gpus:
                    kept.add(index)
                    assert now.time_s - since.setdefault(index, now.time_s) <= bound_s, (path, index, now.time_s)
        for index in set(since) - kept:
            del since[index]
    assert all(job.status == FINISHED for job in simulation.jobs), "lent GPUs came back, and every job had its turn"


@given(case=guaranteed(), policy=st.sampled_from(NAMES))
@settings(max_examples=20, deadline=None)
def test_two_jobs_do_not_stop_each_other(case: Shared, policy: str) -> None:
    """Where past use hardly fades and everybody is there from the start, nobody's due falls again."""
    nodes = tuple(
        QueueNode(node.path, node.quotas, min_runtime_s=node.min_runtime_s, half_life_s=1e12) for node in case.nodes
    )
    jobs = tuple((0.0, *row[1:]) for row in case.jobs)
    shared = Shared(nodes, jobs).run(policy).state.policy
    assert isinstance(shared, Gate)
    pairs = {(taken.loser, taken.winner) for taken in shared.reclaimed}
    assert not {(winner, loser) for loser, winner in pairs} & pairs


@pytest.mark.parametrize("policy", ["dally", "srtf", "gavel"])
def test_a_run_can_be_saved_in_the_middle(policy: str, tmp_path: Path) -> None:
    nodes = (QueueNode("a", {"": Quota(8.0)}), QueueNode("b", weight=3.0))
    jobs = tuple((60.0 * i, 1 << (i % 4), 500.0 + 70.0 * i, "ab"[i % 2]) for i in range(24))
    whole = Shared(nodes, jobs, (2, 2, 4)).run(policy)
    half = Shared(nodes, jobs, (2, 2, 4), until_s=1500.0)
    jobs_of = [Job(i, f"j{i}", row[0], row[1], row[2]) for i, row in enumerate(jobs)]
    for job, row in zip(jobs_of, jobs, strict=True):
        job.spec = replace(job.spec, queue=row[3])
    topology = grid(2, 2, 4)
    shared = make_gate(half.tree, Built(policy, {}), topology)
    simulation = Simulation(jobs_of, Cluster(topology), shared, SpeedModel(), Costs(), Failures())
    simulation.go_on(1500.0)
    save(simulation, tmp_path / "half")
    again = load(tmp_path / "half", Simulation)
    again.run()
    assert [job.finish_s for job in again.jobs] == [job.finish_s for job in whole.jobs]
