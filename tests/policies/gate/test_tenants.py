"""Tenants come with their jobs, and budgets are charged for the time a daemon was away."""

from __future__ import annotations

import json

import pytest

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.engine.state import State
from dally.job_spec import JobSpec
from dally.model import Costs, Job, make_allocation
from dally.perf.base import SpeedModel
from dally.policies.gate.gate import Gate
from dally.policies.gate.pooled import make_gate
from dally.policies.registry import Built
from dally.quotas.tree import Budget, Makes, QueueNode, QueueTree, Quota

HOUR_S = 3600.0
pytestmark = pytest.mark.once
TOPOLOGY = grid(1, 1, 8)


def by_user(jobs: list[Job], tree: QueueTree) -> Gate:
    """The gate of a run of these jobs that has ended."""
    gate = make_gate(tree, Built("fifo-backfill", {}), TOPOLOGY)
    Simulation(jobs, Cluster(TOPOLOGY), gate, SpeedModel(), Costs(0.0, 0.0), Failures()).run()
    return gate


def test_a_tenant_comes_into_being_with_its_first_job() -> None:
    makes = Makes("user", QueueNode("people", {"": Quota(limit=4.0)}))
    jobs = [
        Job(i, f"j{i}", 10.0 * i, 4, 100.0, spec=JobSpec(4, user=user))
        for i, user in enumerate(["ann", "ann", "ben"])
    ]
    gate = make_gate(QueueTree([], makes=makes), Built("fifo-backfill", {}), TOPOLOGY)
    assert [tenant.path for tenant in gate.tenants.all] == ["", "other"]
    Simulation(jobs, Cluster(TOPOLOGY), gate, SpeedModel(), Costs(0.0, 0.0), Failures()).run()
    assert [tenant.path for tenant in gate.tenants.all] == ["", "other", "people", "people/ann", "people/ben"]
    assert [job.start_s for job in jobs] == [0.0, 100.0, 20.0], "4 GPUs each"


def test_made_of_jobs_or_written_down_it_is_the_same() -> None:
    rows = [(7.0 * i, 1 << (i % 4), 50.0 + 13.0 * i, "cab"[i % 3]) for i in range(40)]

    def jobs() -> list[Job]:
        return [
            Job(i, f"j{i}", row[0], row[1], row[2], spec=JobSpec(row[1], user=row[3])) for i, row in enumerate(rows)
        ]

    written = [QueueNode(name, min_runtime_s=30.0, matches={"user": (name,)}) for name in "cab"]
    made = Makes("user", QueueNode("", min_runtime_s=30.0))
    one, other = jobs(), jobs()
    by_user(one, QueueTree(written))
    by_user(other, QueueTree([], makes=made))
    assert [job.finish_s for job in one] == [job.finish_s for job in other]


def test_what_one_used_is_kept_until_it_comes_again() -> None:
    tree = QueueTree([], makes=Makes("user", QueueNode("", budget=Budget(1.0, 1e6))))
    saved = by_user([Job(0, "j0", 0.0, 8, 60.0, spec=JobSpec(8, user="ann"))], tree).save()
    again = make_gate(QueueTree([], makes=tree.makes), Built("fifo-backfill", {}), TOPOLOGY)
    again.load(json.loads(json.dumps(saved)))
    assert again.save()["tenants"]["ann"] == saved["tenants"]["ann"]
    assert again.tenants.of(Job(1, "j1", 0.0, 1, 1.0, spec=JobSpec(1, user="ann"))).spent_gpu_s == pytest.approx(
        480.0
    )


@pytest.mark.parametrize(("window_s", "left_gpu_h"), [(1e6, 10.0 - 8 * 1.5), (HOUR_S, 10.0 - 8 * 0.5)])
def test_a_budget_is_charged_for_the_time_the_daemon_was_away(window_s: float, left_gpu_h: float) -> None:
    """Saved after an hour; half an hour later the job is found still running, in the same window or in the next."""
    tree = QueueTree([QueueNode("a", budget=Budget(10.0, window_s))])
    job = Job(0, "j0", 0.0, 8, 9 * HOUR_S, spec=JobSpec(8, queue="a"))
    first = make_gate(tree, Built("fifo-backfill", {}), TOPOLOGY)
    simulation = Simulation([job], Cluster(TOPOLOGY), first, SpeedModel(), Costs(0.0, 0.0), Failures())
    simulation.go_on(0.0)
    first.tenants.bring_up(HOUR_S)
    saved = json.loads(json.dumps(first.save()))

    second = make_gate(tree, Built("fifo-backfill", {}), TOPOLOGY)
    state = State(Cluster(TOPOLOGY), second, SpeedModel(), Costs(0.0, 0.0))
    second.load(saved)
    found = Job(0, "j0", 0.0, 8, 9 * HOUR_S, spec=JobSpec(8, queue="a"))
    found.placed_s = found.start_s = 0.0
    state.adopt(found, 1.5 * HOUR_S, make_allocation(0, [(0, 8)]))
    tenant = second.tenants.all[1]
    assert tenant.budget_left_gpu_s() == pytest.approx(max(0.0, left_gpu_h * HOUR_S), rel=1e-6)
    assert tenant.used_gpu_s == pytest.approx(8 * 1.5 * HOUR_S, rel=0.01)
    assert second.tenants.root.used_gpu_s == pytest.approx(tenant.used_gpu_s)
