"""`dally whatif` from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dally as package
from dally.cluster.capacity import Cluster
from dally.cluster.spec import connect_topology
from dally.cluster.topology import grid
from dally.perf.profiles import find_profile
from tests.cli.conftest import Run

TRACE = "job_id,user,submit_s,gpus,duration_s,wait_s\na,ana,0,8,1000,0\nb,ben,100,8,100,950\n"
SACCT = """JobID|User|Submit|Start|End|State|AllocTRES
1|ana|2024-03-01T10:00:00|2024-03-01T10:00:00|2024-03-01T11:00:00|COMPLETED|gres/gpu=16
2|ben|2024-03-01T10:10:00|2024-03-01T11:00:20|2024-03-01T11:10:20|COMPLETED|gres/gpu=4
"""
TOPOLOGY = "SwitchName=core Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=n1\nSwitchName=leaf2 Nodes=n2\n"
GRES = "NodeName=n[1-2] Name=gpu Count=8\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"t.csv": TRACE, "sacct.txt": SACCT, "topology.conf": TOPOLOGY, "gres.conf": GRES}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def asked(dally: Run, *arguments: str) -> dict[str, Any]:
    done = dally("whatif", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("folder")
def test_saving_by_hand(dally: Run) -> None:
    """8 GPUs. srtf: a 0-100, b 100-200, a again from 200, restarts for 8 s, and has 900 s left: until 1108.

    fifo: a 0-1000, b 1000-1100. So fifo saves 8 s of 8 GPUs, all of them restarts, and b waits 900 s more.
    """
    found = asked(dally, "t.csv", "--topology", "1x8", "--network", "none", "--current", "srtf", "--policy", "fifo")
    both = found["total"]
    assert both["saved_gpu_h"] == pytest.approx(64 / 3600)
    assert both["current"]["restart_gpu_h"] == pytest.approx(64 / 3600)
    assert both["new"]["restart_gpu_h"] == 0.0
    assert (both["current"]["wait_mean_s"], both["new"]["wait_mean_s"]) == (50.0, 450.0)
    assert (both["current"]["jct_mean_s"], both["new"]["jct_mean_s"]) == ((1108 + 100) / 2, (1000 + 1000) / 2)
    assert found["makespan_s"] == {"current": 1108.0, "new": 1100.0}
    assert [group["name"] for group in found["losing_users"]] == ["ben"]
    assert [(job["job_id"], job["lost_s"]) for job in found["losing_jobs"]] == [("b", 900.0)]
    whole = found["fit"]["whole"]
    assert (whole["jobs"], whole["recorded_mean_s"], whole["replayed_mean_s"]) == (2, 475.0, 0.0)
    assert found["verdict"]["level"] == "unchecked", "two waits prove nothing"
    assert found["recorded_gpu_h"] == pytest.approx(8800 / 3600)
    assert found["models_assumed"] == 0, "without a network models do not matter"


@pytest.mark.usefixtures("folder")
def test_half_the_gpus_let_both_run_at_once(dally: Run) -> None:
    """Elastic, a and b run side by side on 4 GPUs each: b waits for the next round and no longer.

    Without a network half the GPUs are half as fast. So no GPU-hours are gained or lost, restarts aside.
    """
    arguments = ("t.csv", "--topology", "1x8", "--network", "none", "--current", "sia", "--policy", "sia")
    found = asked(dally, *arguments, "--new-elastic", "min=0.5,max=1")
    assert (found["current"], found["new"]) == ("sia", "sia, elastic min=0.5,max=1")
    before, after = found["total"]["current"], found["total"]["new"]
    assert (before["wait_mean_s"], after["wait_mean_s"]) == (70.0, 10.0)
    for side in (before, after):
        assert side["gpu_h"] == pytest.approx(8800 / 3600, abs=0.05), "restarts aside"
    assert [group["name"] for group in found["losing_users"]] == ["ben"], "b runs on half of the GPUs"


@pytest.mark.usefixtures("folder")
def test_capacity_alone(dally: Run) -> None:
    """With a second machine b starts at once."""
    found = asked(
        dally, "--trace", "t.csv", "--cluster", "1x1x8", "--network", "none", "--policy", "fifo-backfill",
        "--cluster-delta", "+1 machine",
    )  # fmt: skip
    assert (found["current"], found["new"]) == ("fifo-backfill", "fifo-backfill, +1 machine")
    assert found["gpus"] == [8, 16]
    assert (found["total"]["current"]["wait_mean_s"], found["total"]["new"]["wait_mean_s"]) == (450.0, 0.0)
    assert found["losing_jobs"] == []


def iteration_s(preset: str, *counts: int) -> float:
    """Of 16 GPUs on the first two machines, training gpt2-xl alone."""
    topology = grid(*counts)
    cluster = Cluster(topology, connect_topology(topology, preset, {}, ""))
    return package.iteration_times(cluster, [(find_profile("gpt2-xl").step(16), {0: 8, 1: 8})])[0]


@pytest.mark.parametrize(
    ("cluster", "arguments", "after"),
    [
        ("2x1x8", ["--new-network", "fast"], ("fast", 2, 1, 8)),
        # The second machine joins the first below one switch, so that the gang needs no uplink of the rack.
        ("2x1x8", ["--cluster-delta", "+1 machine"], ("slow", 1, 2, 8)),
        ("1x2x8", ["--cluster-delta", "+3 racks"], ("slow", 1, 2, 8)),
    ],
)
def test_the_same_work_on_another_network(
    dally: Run, tmp_path: Path, cluster: str, arguments: list[str], after: tuple[Any, ...]
) -> None:
    """A job alone took 1000 s at its closest: it takes that times what an iteration takes after over before."""
    (tmp_path / "one.csv").write_text("job_id,submit_s,gpus,duration_s,model\na,0,16,1000,gpt2-xl\n")
    found = asked(
        dally,
        "--trace",
        "one.csv",
        "--topology",
        cluster,
        "--network",
        "slow",
        "--policy",
        "fifo-backfill",
        *arguments,
    )
    before_s = iteration_s("slow", *(int(count) for count in cluster.split("x")))
    expected_s = 1000 * iteration_s(after[0], *after[1:]) / before_s
    assert found["total"]["current"]["jct_mean_s"] == pytest.approx(1000)
    assert found["total"]["new"]["jct_mean_s"] == pytest.approx(expected_s, rel=1e-6)
    assert found["total"]["saved_gpu_h"] == pytest.approx(16 * (1000 - expected_s) / 3600, abs=1e-5)


def test_an_operators_question(dally: Run, folder: Path) -> None:
    arguments = ["whatif", "--trace", "sacct.txt", "--topology", "topology.conf", "--policy", "las", "--out", "o"]
    done = dally(*arguments, "--set", "lease_s=600", "--network", "slow", "--new-network", "fast", "--seeds", "1,2")
    assert done.returncode == 0, done.stderr
    for text in (
        "2 jobs on 16 GPUs: fifo-backfill (current) against las:lease_s=600, network fast (new)",
        "GPU-hours held by jobs", "By user", "By GPUs of the job",
        "Not checked: the trace records 2 waits", "GPU-hours recorded: 16.7; replayed: ",
        "Replayed under fifo-backfill on slow: not calibrated, the trace records 2 waits",
        "Assumed: models of 2 jobs", "Written to o; open o/report.html",
    ):  # fmt: skip
        assert text in done.stdout
    rows = pl.read_parquet(folder / "o" / "results.parquet")
    assert sorted(rows.columns[:5]) == ["folder", "network", "policy", "seed", "workload"]
    assert rows.select("workload", "network", "policy", "seed").rows() == [
        ("sacct", "slow to fast", policy, seed)
        for policy in ("fifo-backfill", "las:lease_s=600, network fast")
        for seed in (1, 2)
    ]
    for name in rows["folder"]:
        assert (folder / "o" / name / "report.html").exists()
    found = json.loads((folder / "o" / "whatif.json").read_text())
    assert [group["name"] for group in found["users"]] == ["ana", "ben"]
    assert "network fast" in (folder / "o" / "report.html").read_text()

    before = {path: path.read_bytes() for path in (folder / "o").rglob("*") if path.is_file()}
    again = dally(
        *arguments, "--set", "lease_s=600", "--network", "slow", "--new-network", "fast", "--seeds", "1,2"
    )
    assert again.stdout == done.stdout
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.usefixtures("folder")
def test_what_is_assumed_is_said(dally: Run) -> None:
    done = dally("whatif", "--trace", "sacct.txt", "--topology", "topology.conf")
    assert done.returncode == 0, done.stderr
    assert "Assumed: network normal, as the topology states no links" in done.stdout


def test_types_of_gpu_and_unknown_machines_are_said(dally: Run, folder: Path) -> None:
    rows = "".join(
        f"{n}|ana|2024-03-01T1{n}:00:00|2024-03-01T1{n}:00:00|2024-03-01T1{n}:30:00|COMPLETED|{tres}|{nodes}\n"
        for n, tres, nodes in (
            (1, "gres/gpu=16,gres/gpu:a100=16", "n[1-2]"),
            (2, "gres/gpu=4,gres/gpu:h100=4", "n1"),
            (3, "gres/gpu=4,gres/gpu:a100=4", "x[1-2]"),
        )
    )
    (folder / "typed.txt").write_text("JobID|User|Submit|Start|End|State|AllocTRES|NodeList\n" + rows)
    arguments = ["--trace", "typed.txt", "--topology", "topology.conf", "--policy", "las"]
    done = dally("whatif", *arguments)
    assert done.returncode == 0, done.stderr
    for text in (
        "3 jobs ran on GPUs of one type (2 on a100, 1 on h100): HERE THEY MAY RUN ON ANY.",
        "2 jobs ran at a recorded place: what it cost them is taken out of their durations.",
        "1 job ran on machines that the cluster does not have: their durations are taken as they are.",
        "Machines of the record that the cluster does not have: x1, x2.",
        "Not checked: the trace records 3 waits",
    ):
        assert text in done.stdout
    found = asked(dally, *arguments)
    assert (found["places"]["known"], found["places"]["elsewhere"], found["verdict"]["level"]) == (
        2, 1, "do not quote",
    )  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_everything_new_together(dally: Run) -> None:
    found = asked(
        dally, "--trace", "sacct.txt", "--topology", "topology.conf", "--network", "slow", "--policy", "fifo",
        "--new-topology", "1x4x8", "--cluster-delta", "+1 machine", "--new-network", "normal",
        "--set-new-network", "nic_gbps=50", "--out", "o",
    )  # fmt: skip
    assert found["gpus"] == [16, 40]
    assert found["new"] == "fifo, topology 1x4x8, +1 machine, network normal, nic_gbps=50"
    faster = asked(
        dally, "--trace", "sacct.txt", "--topology", "topology.conf", "--network", "slow", "--current", "fifo",
        "--policy", "fifo", "--set-new-network", "nic_gbps=50",
    )  # fmt: skip
    assert faster["new"] == "fifo, nic_gbps=50"
    assert faster["total"]["saved_gpu_h"] > 0.1


@pytest.mark.usefixtures("folder")
def test_jobs_that_no_longer_fit(dally: Run) -> None:
    arguments = ["--trace", "sacct.txt", "--topology", "topology.conf", "--cluster-delta", "-1 rack"]
    refused = dally("whatif", *arguments)
    assert refused.returncode == 2
    assert "job '1' asks for 16 GPUs and the cluster would have 8; --skip-impossible" in refused.stderr
    found = asked(dally, *arguments, "--skip-impossible")
    assert (found["skipped"], found["no_longer_fit"], found["unfinished"], found["total"]["jobs"]) == (0, 1, 0, 1)


def test_a_quota_that_leaves_no_room_for_a_job_is_told_once(dally: Run, folder: Path) -> None:
    (folder / "queues.toml").write_text("[queues.all]\nlimit = 8\ndefault = true\n")
    done = dally(
        "whatif", "--trace", "t.csv", "--topology", "1x8", "--network", "none", "--current", "fifo",
        "--queues", "queues.toml", "--quota", "all.limit=4",
    )  # fmt: skip
    assert done.returncode == 2
    assert "gpus: asks for 8, and queue 'all' may hold 4; --skip-impossible leaves such jobs out" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topology", "1x8"], "--trace is missing"),
        (["--trace", "t.csv"], "--cluster is missing"),
        (["--trace", "no.csv", "--topology", "1x8"], "no.csv: cannot be read"),
        (["--trace", "t.csv", "--topology", "no.conf"], "cluster 'no.conf': neither RxMxG"),
        (["--trace", "t.csv", "--topology", "1x4"], "asks for 8 GPUs and the cluster has 4"),
        (["--trace", "t.csv", "--topology", "1x8", "--policy", "daly"], "did you mean 'dally'?"),
        (["--trace", "t.csv", "--topology", "1x8", "--current", "fifi"], "did you mean 'fifo'?"),
        (["--trace", "t.csv", "--topology", "1x8", "--set", "nothing=1"], "has no parameter 'nothing'"),
        (["--trace", "t.csv", "--topology", "1x8", "--set-current", "x"], "--set-current x: must be KEY=VALUE"),
        (["--trace", "t.csv", "--topology", "1x8", "--network", "slwo"], "did you mean 'slow'?"),
        (["--trace", "t.csv", "--topology", "1x8", "--new-network", "slwo"], "did you mean 'slow'?"),
        (["--trace", "t.csv", "--topology", "1x8", "--network", "none", "--new-network", "slow"],
         "network slow: today no network is known"),
        (["--trace", "t.csv", "--topology", "1x8", "--network", "none", "--set-new-network", "nic_gbps=5"],
         "network nic_gbps=5: today no network is known"),
        (["--trace", "t.csv", "--topology", "1x8", "--set-new-network", "nic_gbsp=5"], "nic_gbsp"),
        (["--trace", "t.csv", "--topology", "1x8", "--new-topology", "no.conf"], "'no.conf': neither RxMxG"),
        (["--trace", "t.csv", "--topology", "1x8", "--new-topology", "1x4"],
         "dally, topology 1x4: job 'a' asks for 8 GPUs and the cluster would have 4"),
        (["--trace", "t.csv", "--topology", "1x8", "--set-current", "x=1"], "say of which policy with --current"),
        (["--trace", "t.csv", "--topology", "1x8", "--cluster-delta", "+1 rack"], "this cluster has machines"),
        (["--trace", "t.csv", "--topology", "1x8", "--policy", "fifo-backfill"], "nothing would be different"),
        (["--trace", "t.csv", "--topology", "1x8", "--seeds", "x"], "--seeds x: must be whole numbers"),
        (["--trace", "t.csv", "--topology", "1x8", "--mix", "mixd"], "'mixd'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(
    dally: Run, folder: Path, arguments: list[str], message: str
) -> None:
    names = sorted(path.name for path in folder.iterdir())
    done = dally("whatif", *arguments, "--out", "o")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == names
