"""`dally simulate` with a network: options, scenarios, lengths of jobs, and what is said of bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TRACE = "job_id,submit_s,gpus,duration_s,model\na,0,8,100,vgg16\nb,0,16,100,bert-large\nc,1,4,50,\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    (tmp_path / "t.csv").write_text(TRACE)
    return "t.csv"


def summary_of(dally: Run, *arguments: str) -> dict[str, float]:
    done = dally("simulate", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_without_a_network_nothing_is_lost_to_it(dally: Run, trace: str) -> None:
    assert summary_of(dally, "--trace", trace, "--cluster", "1x4x8")["comm_s"] == 0


def test_closest_placements_on_a_quiet_network_take_their_duration(dally: Run, trace: str) -> None:
    summary = summary_of(dally, "--trace", trace, "--cluster", "1x4x8", "--network", "slow")
    assert summary["makespan_s"] == pytest.approx(100.0)
    assert summary["comm_s"] == pytest.approx(summary["comm_floor_s"], rel=1e-6)
    assert summary["comm_s"] > 0


def test_congestion_and_overrides_slow_gangs_across_machines(dally: Run, trace: str) -> None:
    base = ("--trace", trace, "--cluster", "1x4x8", "--network", "slow")
    quiet = summary_of(dally, *base)
    congested = summary_of(dally, *base, "--congestion", "0.9")
    by_tier = summary_of(dally, *base, "--congestion", "machine=0.9")
    thin = summary_of(dally, *base, "--set-network", "nic_gbps=0.5")
    assert congested["makespan_s"] > 1.2 * quiet["makespan_s"]
    assert by_tier["makespan_s"] == pytest.approx(congested["makespan_s"])
    # Thinner NICs are the cluster's own: the closest placement has them too, and durations stand for it.
    assert thin["makespan_s"] == pytest.approx(100.0)
    assert thin["comm_s"] > quiet["comm_s"]


def test_links_in_the_cluster_file_are_enough(dally: Run, trace: str, tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(
        '[[tiers]]\nname = "machine"\ncapacity_gbps = 5\n[[tiers]]\nname = "network"\n'
        "[[machines]]\ncount = 4\ngpus = 8\n"
    )
    assert summary_of(dally, "--trace", trace, "--cluster", "lab.toml")["comm_s"] > 0


def test_lengths_in_compute_seconds_and_iterations(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("job_id,submit_s,gpus,compute_s,model\na,0,16,100,bert-large\n")
    (tmp_path / "i.csv").write_text("job_id,submit_s,gpus,iterations,model\na,0,16,1000,bert-large\n")
    compute = summary_of(dally, "--trace", "c.csv", "--cluster", "1x4x8", "--network", "slow")
    assert compute["compute_gpu_s"] == pytest.approx(16 * 100.0, rel=1e-6)
    assert compute["makespan_s"] == pytest.approx(100.0 + compute["comm_s"], rel=1e-6)
    model = json.loads(dally("models", "--json").stdout)
    step_s = next(row["forward_s"] + row["backward_s"] for row in model if row["name"] == "bert-large")
    iterations = summary_of(dally, "--trace", "i.csv", "--cluster", "1x4x8", "--network", "slow")
    assert iterations["compute_gpu_s"] == pytest.approx(16 * 1000 * step_s, rel=1e-6)
    plain = summary_of(dally, "--trace", "c.csv", "--cluster", "1x4x8")
    assert (plain["makespan_s"], plain["comm_s"]) == (100.0, 0)


def test_a_scenario_repeats_network_and_mix(dally: Run, trace: str, tmp_path: Path) -> None:
    options = (
        "--network",
        "congested",
        "--set-network",
        "nic_gbps=5",
        "--congestion",
        "rack=0.3",
        "--mix",
        "uniform",
    )
    first = dally("simulate", "--trace", trace, "--cluster", "2x2x8", *options, "--seed", "5", "--out", "one")
    assert first.returncode == 0, first.stderr
    again = dally("simulate", "--scenario", "one/scenario.toml", "--out", "two")
    assert again.returncode == 0, again.stderr
    for name in ("jobs.csv", "events.parquet", "slots.parquet", "scenario.toml"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--network", "fats"], "unknown network 'fats'; did you mean 'fast'?"),
        (["--network", "slow", "--set-network", "nic=1"], "network: nic: unknown; known: "),
        (["--network", "slow", "--set-network", "nic_gbps=-1"], "network: nic_gbps: -1.0: must be above 0"),
        (["--network", "slow", "--congestion", "1"], "must be a share of capacity from 0 to below 1"),
        (["--network", "slow", "--congestion", "pod=0.1"], "congestion: 'pod': no such tier; known: machine, rack"),
        (["--congestion", "0.5"], "--congestion 0.5: the cluster states no links; give --network too"),
        (["--network", "slow", "--mix", "unifrom"], "unknown mix 'unifrom'; did you mean 'uniform'?"),
        (["--network", "slow", "--gpu", "b9"], "unknown GPU type 'b9'"),
        (["--network", "slow", "--profiles", "none.toml"], "none.toml"),
    ],
)
def test_bad_options(dally: Run, trace: str, arguments: list[str], message: str) -> None:
    done = dally("simulate", "--trace", trace, "--cluster", "1x4x8", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_model_names_the_job(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s,model\na,0,8,100,vgg61\n")
    done = dally("simulate", "--trace", "t.csv", "--cluster", "1x4x8", "--network", "slow")
    assert done.returncode == 2
    assert "job 'a': unknown model 'vgg61'; did you mean 'vgg16'?" in done.stderr
