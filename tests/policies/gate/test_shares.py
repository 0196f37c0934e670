"""Shares over time: by weight, and no more is paid back than the half-life says."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log

import pytest
from benchmarks.fair_tree import fair_tree_of
from hypothesis import given
from hypothesis import strategies as st
from librt.vecs import vec

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.job_spec import JobSpec
from dally.model import CANCEL, Costs, Event, Job
from dally.perf.base import SpeedModel
from dally.policies.gate.fair_shares import comes_before, fill, standing
from dally.policies.gate.gate import Gate
from dally.policies.gate.pooled import make_gate
from dally.policies.gate.tenants import Tenants
from dally.policies.registry import Built
from dally.quotas.tree import ANY_TYPE, Budget, QueueNode, QueueTree, Quota

HALF_LIFE_S = 20_000.0
pytestmark = pytest.mark.once  # what is compiled of it is the queue, and that has tests of its own


def shared_run(
    policy: str, rows: list[tuple[float, int, float, str]], weights: dict[str, float], racks: int, until_s: float
) -> Gate:
    """A run of these jobs (submit_s, gpus, duration_s, queue), and its policy."""
    nodes = [
        QueueNode(path, weight=weight, half_life_s=HALF_LIFE_S, min_runtime_s=300.0)
        for path, weight in weights.items()
    ]
    topology = grid(racks, 4, 8)
    jobs = [Job(i, f"j{i}", row[0], row[1], row[2]) for i, row in enumerate(sorted(rows))]
    for job, row in zip(jobs, sorted(rows), strict=True):
        job.spec = replace(job.spec, queue=row[3])
    shared = make_gate(QueueTree(nodes), Built(policy, {}), topology)
    Simulation(jobs, Cluster(topology), shared, SpeedModel(), Costs(), Failures()).run(until_s)
    return shared


def used(shared: Gate) -> dict[str, float]:
    """GPU-seconds by queue."""
    return {team.path: team.gpu_s for team in shared.tenants.all[1:]}


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las", "themis", "dally"])
@pytest.mark.parametrize(("sizes", "racks"), [((1, 2, 4, 8), 2), ((1, 8, 64), 6)], ids=["small", "gangs-of-64"])
def test_backlogged_queues_share_by_weight(policy: str, sizes: tuple[int, ...], racks: int) -> None:
    """Within 2 % over two half-lives, however long the jobs of each are."""
    rows = [
        (0.0, sizes[(7 * i + i // 3) % len(sizes)], 600.0 + 37.0 * (i * i % 146), "ab"[i % 2]) for i in range(600)
    ]
    found = used(shared_run(policy, rows, {"a": 1.0, "b": 2.0}, racks, 2 * HALF_LIFE_S))
    assert found["b"] / (found["a"] + found["b"]) == pytest.approx(2.0 / 3.0, rel=0.02)


def test_who_was_idle_is_paid_back_what_its_half_life_says_and_no_more() -> None:
    """After a half-life in which one queue had all, the other gets more than half, later half again.

    In all it gets no more than what the first one had used counts by then.
    """
    rows = [(0.0, 1, 3000.0 + i % 7, "a") for i in range(3000)]
    rows += [(HALF_LIFE_S, 1, 3000.0 + i % 11, "b") for i in range(3000)]
    at_start = used(shared_run("fifo-backfill", rows, {"a": 1.0, "b": 1.0}, 2, HALF_LIFE_S))
    later = [
        used(shared_run("fifo-backfill", rows, {"a": 1.0, "b": 1.0}, 2, HALF_LIFE_S + more_s))
        for more_s in (0.5 * HALF_LIFE_S, 4 * HALF_LIFE_S, 5 * HALF_LIFE_S)
    ]
    soon = later[0]["b"] / (later[0]["a"] - at_start["a"] + later[0]["b"])
    last = (later[2]["b"] - later[1]["b"]) / 64 / HALF_LIFE_S
    counts = at_start["a"] * (1.0 - 0.5) / log(2.0)
    assert 0.55 < soon <= 0.9 + 0.01, "three times its weight at most, against a third"
    assert last == pytest.approx(0.5, rel=0.02)
    assert later[2]["b"] - (later[2]["a"] - at_start["a"]) <= counts


@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0, 5.0]), min_size=6, max_size=6),
    st.lists(st.integers(1, 10_000), min_size=4, max_size=4, unique=True),
)
def test_the_rest_is_offered_in_the_order_of_the_fair_tree(weights: list[float], used: list[int]) -> None:
    """Slurm's, which a real Slurm agrees with: `python -m benchmarks.slurm_fair_tree`."""
    paths = ["a", "a/x", "a/y", "b", "b/x", "b/y"]
    tree = QueueTree([QueueNode(path, weight=weight) for path, weight in zip(paths, weights, strict=True)])
    by_leaf = dict(zip(tree.leaves(), map(float, used), strict=True))
    tenants = Tenants(tree, [""])
    for path, team in ((each.path, each) for each in tenants.all if not each.children):
        for above in team.up():
            above.used_gpu_s += by_leaf.get(path, 0.0)
    factors = fair_tree_of(tree, by_leaf)
    leaves = [team for team in sorted(tenants.all, key=standing) if team.path in by_leaf]
    found = [factors[team.path].factor for team in leaves]
    assert found == sorted(found, reverse=True)


@given(
    st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=8, max_size=8),
    st.lists(st.sampled_from([0.0, 1.0]), min_size=8, max_size=8),
    st.lists(st.sampled_from([0.0, 1.0, 2.0, 4.0]), min_size=8, max_size=8),
)
def test_who_comes_before_whom_is_the_order_of_their_standings(
    weights: list[float], priorities: list[float], used: list[float]
) -> None:
    paths = ["a", "a/x", "a/y", "b", "b/x", "b/x/p", "b/x/q", "c"]
    rows = zip(paths, weights, priorities, strict=True)
    tenants = Tenants(QueueTree([QueueNode(path, weight=w, priority=p) for path, w, p in rows]), [""])
    for tenant, gpu_s in zip(tenants.all[1:], used, strict=False):
        tenant.used_gpu_s = gpu_s
    leaves = [tenant for tenant in tenants.all if not tenant.children]
    for one in leaves:
        for other in leaves:
            assert comes_before(one, other) == (standing(one) < standing(other))


def test_what_was_used_is_known_after_a_restart() -> None:
    """Past use, and what is left of a budget in its window."""
    node = QueueNode("a", budget=Budget(10.0, 1e6), half_life_s=HALF_LIFE_S)
    jobs = [Job(0, "j0", 0.0, 8, 3600.0), Job(1, "j1", 0.0, 8, 3600.0)]
    topology = grid(1, 1, 8)
    first = make_gate(QueueTree([node]), Built("dally", {}), topology)
    for job in jobs:
        job.spec = replace(job.spec, queue="a")
    Simulation(jobs, Cluster(topology), first, SpeedModel(), Costs(0.0, 0.0), Failures()).run(3600.0)
    first.tenants.all[1].bring_up(3600.0)
    second = make_gate(QueueTree([node]), Built("dally", {}), topology)
    second.begin(first.view)
    second.load(json.loads(json.dumps(first.save())))
    team = second.tenants.all[1]
    assert team.used_gpu_s == pytest.approx(first.tenants.all[1].used_gpu_s)
    team.bring_up(3600.0)
    assert team.budget_left_gpu_s() == pytest.approx(2 * 3600.0, rel=1e-3)


def test_a_cancelled_job_leaves_nothing_behind() -> None:
    jobs = [Job(0, "j0", 0.0, 8, 3600.0), Job(1, "j1", 0.0, 8, 3600.0)]
    topology = grid(1, 1, 8)
    shared = make_gate(QueueTree([QueueNode("a")]), Built("dally", {}), topology)
    simulation = Simulation(jobs, Cluster(topology), shared, SpeedModel(), Costs(), Failures())
    simulation.go_on(1.0)
    simulation.happen([Event(CANCEL, job) for job in jobs], 2.0)
    assert not shared.knows(jobs[0])
    assert not shared.knows(jobs[1])
    assert [sum(team.demanded) + sum(team.held) for team in shared.tenants.all[1:]] == [0, 0]


@pytest.mark.parametrize("machines", [2, 4])
def test_a_limit_above_that_borrowers_fill_keeps_nobody_from_its_guarantee(machines: int) -> None:
    """As the topmost cohort of Kueue has one: the sum of its queues' quotas. GPUs beyond it may be free."""
    quotas = {ANY_TYPE: Quota(8.0)}
    nodes = [QueueNode("all", {ANY_TYPE: Quota(16.0, 16.0)})]
    nodes += [QueueNode(f"all/{name}", quotas, min_runtime_s=100.0) for name in "ab"]
    jobs = [Job(i, f"j{i}", 0.0 if i < 2 else 10.0, 8, 1000.0) for i in range(3)]
    for job in jobs:
        job.spec = replace(job.spec, queue="all/a" if job.index < 2 else "all/b")
    topology = grid(1, machines, 8)
    shared = make_gate(QueueTree(nodes), Built("fifo-backfill", {}), topology)
    Simulation(jobs, Cluster(topology), shared, SpeedModel(), Costs(0.0, 0.0), Failures()).run()
    assert [taken.winner_queue for taken in shared.reclaimed] == ["all/b"]
    assert jobs[2].finish_s == 1100.0


def test_a_limit_above_frees_no_more_than_it_needs() -> None:
    """Of two cohorts only the one at its limit gives back, and no more jobs than the guarantee asks for."""
    nodes = [QueueNode("one", {ANY_TYPE: Quota(32.0, 32.0)}), QueueNode("two", {ANY_TYPE: Quota(8.0)})]
    nodes += [QueueNode(f"one/{name}", {ANY_TYPE: Quota(8.0)}, min_runtime_s=0.0) for name in "ab"]
    nodes += [QueueNode("two/c", {ANY_TYPE: Quota(8.0)}, min_runtime_s=0.0)]
    queues = ["one/a"] * 4 + ["two/c"] * 2 + ["one/b"]
    jobs = [Job(i, f"j{i}", 0.0 if i < 6 else 10.0, 8, 1000.0) for i in range(7)]
    for job, queue in zip(jobs, queues, strict=True):
        job.spec = replace(job.spec, queue=queue)
    topology = grid(1, 8, 8)
    shared = make_gate(QueueTree(nodes), Built("fifo-backfill", {}), topology)
    Simulation(jobs, Cluster(topology), shared, SpeedModel(), Costs(0.0, 0.0), Failures()).run()
    assert [(taken.loser_queue, taken.winner_queue) for taken in shared.reclaimed] == [("one/a", "one/b")]
    assert jobs[6].finish_s == 1010.0


def test_priority_classes_within_a_queue() -> None:
    """A job of a higher class stops one of a lower, once that has run long enough, and not the other way round."""
    tree = QueueTree(
        [QueueNode("a", min_runtime_s=100.0), QueueNode("b", min_runtime_s=100.0)],
        classes={"usual": 0.0, "urgent": 10.0},
    )
    jobs = [Job(i, f"j{i}", 10.0 * i, 8, 1000.0, spec=JobSpec(8, priority=10.0 * (i == 1))) for i in range(3)]
    for job in jobs:
        job.spec = replace(job.spec, queue="a")
    topology = grid(1, 1, 8)
    shared = make_gate(tree, Built("fifo-backfill", {}), topology)
    Simulation(jobs, Cluster(topology), shared, SpeedModel(), Costs(0.0, 0.0), Failures()).run()
    assert [job.finish_s for job in jobs] == [2000.0, 1100.0, 3000.0]
    assert [(taken.loser_queue, taken.winner_queue) for taken in shared.reclaimed] == [("a#usual", "a#urgent")]


@pytest.mark.parametrize(
    ("total", "floors", "caps", "weights", "levels", "found"),
    [
        (12.0, [0, 0], [99, 99], [1, 2], [0, 0], [4, 8]),
        (12.0, [6, 0], [99, 99], [1, 2], [0, 0], [8, 4]),
        (12.0, [0, 0, 0], [2, 99, 99], [1, 1, 1], [0, 0, 0], [2, 5, 5]),
        (12.0, [0, 0], [99, 99], [1, 2], [1, 0], [12, 0]),
        (12.0, [0, 0], [5, 99], [1, 2], [1, 0], [5, 7]),
        (6.0, [8, 4], [8, 4], [1, 1], [0, 0], [4, 2]),
        (12.0, [1, 1], [1, 1], [1, 1], [0, 0], [1, 1]),
    ],
)
def test_guarantees_then_priorities_then_weights(
    total: float, floors: list[float], caps: list[float], weights: list[float], levels: list[float],
    found: list[float],
) -> None:  # fmt: skip
    columns = [vec[float]([float(value) for value in values]) for values in (floors, caps, weights, levels)]
    assert list(fill(total, *columns)) == pytest.approx(found)
