"""Who got what, by queue, user and type of GPU: worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Machine, Topology, grid
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.job_spec import JobSpec
from dally.metrics.jobs_csv import SHARED
from dally.metrics.queue_summary import jain, summarize_sharing
from dally.metrics.simulated import Simulated
from dally.metrics.user_fairness import rho_by_user
from dally.model import Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.gate.pooled import make_gate
from dally.policies.registry import Built
from dally.quotas.tree import QueueNode, QueueTree, Quota
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario

TREE = QueueTree([QueueNode("a", {"": Quota(4.0)}), QueueNode("b")])


def shared(
    rows: list[tuple[float, int, float, str]], topology: Topology | None = None, tree: QueueTree = TREE
) -> Simulated:
    """Jobs (submit_s, gpus, duration_s, queue), run to their end."""
    jobs = [
        Job(i, f"j{i}", row[0], row[1], row[2], spec=JobSpec(row[1], user=f"of {row[3]}"))
        for i, row in enumerate(rows)
    ]
    for job, row in zip(jobs, rows, strict=True):
        job.spec = replace(job.spec, queue=row[3])
    where = topology or grid(1, 1, 8)
    policy = make_gate(tree, Built("fifo", {}), where)
    simulation = Simulation(jobs, Cluster(where), policy, SpeedModel(), Costs(), Failures())
    simulation.run()
    return Simulated(simulation)


@pytest.fixture(scope="module")
def taken_back() -> Simulated:
    """b has the whole cluster for an hour; then a wants what it is guaranteed, for an hour."""
    return shared([(0.0, 8, 7200.0, "b"), (3600.0, 4, 3600.0, "a")])


def test_gpu_hours_held_borrowed_lent_and_taken_back(taken_back: Simulated) -> None:
    found = summarize_sharing(taken_back, None)["queues"]
    a, b = found["a"], found["b"]
    restart_h = 8 * 8 / 3600  # GPU-hours: a second for each of its GPUs
    assert (a["gpu_h"], b["gpu_h"]) == pytest.approx((4.0, 16.0 + restart_h))
    assert (a["borrowed_gpu_h"], b["borrowed_gpu_h"]) == pytest.approx((0.0, 16.0 + restart_h))
    assert (a["lent_gpu_h"], b["lent_gpu_h"]) == pytest.approx((8.0 + restart_h / 2, 0.0)), "4 of 8, both hours"
    assert (a["entitled_gpu_h"], b["entitled_gpu_h"]) == pytest.approx((4.0, 20.0 + restart_h)), "b: 8, 4, 8 GPUs"
    assert (a["reclaimed"], b["stopped"], b["reclaimed"], a["stopped"]) == (1, 1, 0, 0)
    assert a["reclaimed_gpu_h"] == b["stopped_gpu_h"] == pytest.approx(8.0)
    assert (a["queue_mean_s"], b["queue_mean_s"]) == pytest.approx((0.0, 3600.0))
    assert (a["jobs"], b["finished"], list(found)) == (1, 1, ["a", "b"])


def test_a_fair_share_is_a_part_of_the_cluster_by_what_all_ask_for(taken_back: Simulated) -> None:
    """b: 10,808 s, of which for one hour 12 GPUs are asked for of 8."""
    found = rho_by_user(taken_back)
    assert found is not None
    crowding = (10_808 + 1800) / 10_808
    assert found["by_user"] == pytest.approx({"of b": 10_808 / (7200 * crowding), "of a": 3600 / (3600 * 1.5)})
    assert (found["worst"], found["users"]) == ("of b", 2)
    assert found["p50"] == pytest.approx(sum(found["by_user"].values()) / 2)


def test_queues_that_wait_side_by_side_are_compared_by_weight() -> None:
    rows = [(0.0, 4, 3600.0, name) for name in "ab" * 4]
    alike = QueueTree([QueueNode("a"), QueueNode("b")])
    assert summarize_sharing(shared(rows, tree=alike), None)["jain"] == pytest.approx(1.0)
    assert summarize_sharing(shared([(0.0, 8, 60.0, "b")]), None)["jain"] is None, "nobody to compare with"
    assert jain([1.0, 1.0, 1.0]) == 1.0
    assert jain([1.0, 0.0]) == 0.5


def test_types_of_gpu_are_told_apart_by_where_jobs_ran() -> None:
    machines = [Machine(("r0",), "m0", 4, "A100"), Machine(("r0",), "m1", 4, "V100")]
    record = shared([(0.0, 4, 60.0, "b"), (0.0, 4, 60.0, "b")], Topology(["machine", "rack", "network"], machines))
    use = summarize_sharing(record, None)["gpu_types"]
    assert {name: round(row["utilization"], 6) for name, row in use.items()} == {"A100": 1.0, "V100": 1.0}
    assert set(record.jobs["gpu_type"]) == {"A100", "V100"}


def test_a_run_with_queues_leaves_its_shares_and_one_without_does_not(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("job_id,submit_s,gpus,duration_s,user\nj0,0,8,7200,bob\nj1,3600,4,3600,ada\n")
    queues = tmp_path / "queues.toml"
    queues.write_text('[queues.a]\nguarantee = 4\nmatch = {user = ["ada"]}\n[queues.b]\ndefault = true\n')
    out = tmp_path / "run"
    record = execute(Scenario(str(trace), "1x8", "fifo", queues=str(queues)), out=out)
    kept = FolderRecord(out)
    assert kept.shares.rows() == record.shares.rows()
    assert kept.reclaims.select("loser", "winner", "loser_queue", "winner_queue").rows() == [("j0", "j1", "b", "a")]
    assert kept.jobs.columns[-3:] == list(SHARED)
    assert kept.jobs["queue"].to_list() == ["b", "a"]
    plain = execute(Scenario(str(trace), "1x8", "fifo"), out=out)
    assert not (out / "shares.parquet").exists(), "of the run before"
    assert FolderRecord(out).shares.is_empty()
    assert plain.jobs.columns[-1] == "user"
    assert "queues" not in plain.summary
