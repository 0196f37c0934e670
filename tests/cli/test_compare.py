"""`dally compare` from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Run, refused
from tests.cli.test_simulate import FILES

NOTE = (
    "4 jobs state no time limit (limit_s): each is planned as a day long, so Slurm's backfill cannot tell short "
    "jobs from long ones"
)
TRACE = "job_id,submit_s,gpus,duration_s\na,0,4,1000\nb,1,8,500\nc,2,4,300\nd,3,16,60\n"


def test_policies_without_commas_are_told(dally: Run, trace: str) -> None:
    done = dally("compare", trace, "--cluster", "1x2x8", "--policies", "fifo", "las")
    assert (done.returncode, done.stderr) == (
        2, "dally: las: is a policy and no trace: separate policies by commas: --policies fifo,las\n"
    )  # fmt: skip


def test_prints_what_runs_say_of_their_jobs(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    on = ("t.csv", "--cluster", "1x2x8")
    done = dally("compare", *on, "--policies", "fifo,slurm-backfill", "--jobs", "1", "--replications", "1")
    assert done.returncode == 0, done.stderr
    assert dally("simulate", *on, "--policy", "slurm-backfill").stdout.splitlines()[-1] == NOTE
    assert f"t under slurm-backfill: {NOTE}" in done.stdout.splitlines()
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s,limit_s\na,0,4,10,60\nb,0,4,10,\n")
    assert "time limit" not in dally("simulate", *on, "--policy", "slurm-backfill").stdout


def test_without_a_network_all_places_are_equal(dally: Run, trace: str) -> None:
    on = (trace, "--cluster", "1x2x8", "--json")
    done = dally("simulate", *on, "--policy", "fifo", "--network", "none")
    assert (done.returncode, json.loads(done.stdout)["comm_s"]) == (0, 0.0)
    done = dally("compare", *on, "--policies", "fifo", "--network", "none", "--replications", "1")
    assert done.returncode == 0, done.stderr
    done = dally("simulate", *on, "--network", "none", "--congestion", "0.5")
    problem = "--network none: --set-network and --congestion need a network"
    assert (done.returncode, done.stderr) == (2, f"dally: {problem}\n")


def test_leaves_a_table_and_a_folder_per_run(dally: Run, trace: str, tmp_path: Path) -> None:
    arguments = ["compare", "--trace", trace, "--cluster", "1x2x8", "--network", "slow,congested", "--seeds", "1,2"]
    arguments += ["--policies", "fifo,las:lease_s=100", "--baseline", "fifo", "--out", "o", "--jobs", "2"]
    arguments += ["--replications", "2"]
    done = dally(*arguments)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "o"
    every = pl.read_parquet(out / "results.parquet")
    assert every.select("workload", "network", "policy", "seed", "replication").rows() == [
        ("t", network, policy, seed, replication)
        for network in ("slow", "congested")
        for policy in ("fifo", "las:lease_s=100")
        for seed in (1, 2)
        for replication in (0, 1)
    ]
    assert every.filter(pl.col("replication") == 1)["folder"].is_null().all(), "one folder per policy and seed"
    table = every.filter(pl.col("replication") == 0)
    assert sorted(f"runs/{path.name}" for path in (out / "runs").iterdir()) == sorted(table["folder"])
    for name in table["folder"]:
        assert sorted(path.name for path in (out / name).iterdir()) == FILES
    assert "las:lease_s=100" in (out / "report.html").read_text()
    summary = json.loads((out / "runs" / "t-slow-fifo-1" / "summary.json").read_text())
    assert summary["jct_mean_s"] == table["jct_mean_s"][0]
    for text in ("t, network slow: 4 jobs, seeds 1, 2, 2 replications", "against fifo", "at least", "Written to o"):
        assert text in done.stdout
    assert "**" in (out / "table.md").read_text()

    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = dally(*arguments)
    assert again.stdout == done.stdout
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before, "nothing was run again"


def test_a_run_of_it_is_a_run_of_simulate(dally: Run, trace: str, tmp_path: Path) -> None:
    assert (
        dally("compare", "--trace", trace, "--cluster", "1x2x8", "--policies", "fifo", "--out", "o").returncode == 0
    )
    made = tmp_path / "o" / "runs" / "t-fifo-1"
    again = dally("simulate", "--scenario", str(made / "scenario.toml"), "--out", "again")
    assert again.returncode == 0, again.stderr
    for name in ("jobs.csv", "events.parquet", "scenario.toml"):
        assert (made / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_json(dally: Run, trace: str) -> None:
    """fifo on 8 GPUs: a and c wait for nobody (c is behind b), so by hand: a 0-1000, b 1000-1500, c 1500-1800."""
    done = dally(
        "compare", "--trace", trace, "--cluster", "1x1x8", "--skip-impossible", "--policies",
        "fifo,fifo-backfill", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert (found["baseline"], found["failures"]) == ("fifo", [])
    first, second = found["results"]
    mean = (1000 + 1499 + 1798) / 3
    assert first["jct_mean_s"]["mean"] == pytest.approx(mean)
    # With backfilling c runs beside a: 2-302.
    better = (1000 + 1499 + 300) / 3
    assert second["jct_mean_s"]["mean"] == pytest.approx(better)
    assert second["jct_mean_s"]["against_baseline"] == pytest.approx(better / mean - 1)
    assert second["jct_mean_s"]["times_bound"] == pytest.approx(better / second["jct_mean_s"]["bound"])


def test_several_workloads_and_a_scenario(dally: Run, trace: str, tmp_path: Path) -> None:
    (tmp_path / "u.csv").write_text(TRACE.replace("1000", "9000"))
    assert dally("simulate", "--trace", trace, "--cluster", "1x2x8", "--until", "600", "--out", "s").returncode == 0
    done = dally(
        "compare", "--scenario", "s/scenario.toml", "--trace", "t.csv", "--trace", "u.csv", "--policies",
        "fifo", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["results"]
    assert [entry["workload"] for entry in found] == ["t", "u"]
    assert [entry["finished"] for entry in found] == [2, 2], "b and c, until 600 s as the scenario says"


def test_a_cell_of_the_benchmark(dally: Run, shared: Path) -> None:
    done = dally(
        "compare", "--workloads", "paper-poisson", "--policies", "fifo-backfill", "--shared", str(shared), "--json"
    )
    assert done.returncode == 0, done.stderr
    entry = json.loads(done.stdout)["results"][0]
    assert (entry["workload"], entry["network"], entry["jobs"]) == ("paper-poisson", "slow", 411)


def test_a_run_that_fails_does_not_stop_the_rest(dally: Run, trace: str, tmp_path: Path) -> None:
    """Job d of the second trace asks for more than the cluster has."""
    (tmp_path / "u.csv").write_text(TRACE.replace("d,3,16", "d,3,17"))
    done = dally(
        "compare",
        "--trace",
        "u.csv",
        "--trace",
        trace,
        "--cluster",
        "1x2x8",
        "--policies",
        "fifo,las",
        "--out",
        "o",
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "dally: 2 runs failed:",
        *(
            f"  workload u, policy {policy}, seed 1: InputError: {tmp_path}/u.csv:5: gpus: "
            "job 'd' asks for 17 GPUs and the cluster has 16; --skip-impossible leaves such jobs out"
            for policy in ("fifo", "las")
        ),
    ]
    assert pl.read_parquet(tmp_path / "o" / "results.parquet")["workload"].to_list() == ["t"] * 10
    assert "t: 4 jobs" in done.stdout


def test_progress_goes_to_stderr_when_asked_for(dally: Run, trace: str) -> None:
    done = dally("compare", trace, "--cluster", "1x2x8", "--policies", "fifo", "--json", "--progress")
    assert json.loads(done.stdout)["failures"] == []
    assert "5/5 runs" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster", "1x8"], "--trace or --workloads is missing"),
        (["--trace", "t.csv"], "--cluster is missing"),
        (["--trace", "no.csv", "--cluster", "1x8", "--out", "o"], "no.csv: cannot be read"),
        (["--trace", "t.csv", "--cluster", "1x8", "--policies", "fifi"], "did you mean 'fifo'?"),
        (["--trace", "t.csv", "--cluster", "1x8", "--policies", "las:leas_s=1"], "has no parameter 'leas_s'"),
        (["--trace", "t.csv", "--cluster", "1x8", "--policies", "las", "--baseline", "fifo"],
         "unknown baseline 'fifo'"),
        (["--trace", "t.csv", "--cluster", "1x8", "--network", "slwo"], "did you mean 'slow'?"),
        (["--trace", "t.csv", "--cluster", "1x8", "--seeds", "1,x"], "--seeds 1,x: must be whole numbers"),
        (["--trace", "t.csv", "--cluster", "1x8", "--engine", "rya"], "did you mean 'ray'?"),
        (["--workloads", "venus8"], "did you mean 'venus80'?"),
        (["--workloads", "venus80", "--shared", "nowhere", "--out", "o"],
         "nowhere/traces/helios_venus_window20d.csv.gz, which is not"),
        (["--trace", "t.csv", "--cluster", "1x8", "--out", "t.csv/x"], "t.csv/x: cannot be written"),
        # Only runs find these out: told once, not for every run.
        (["--trace", "t.csv", "--cluster", "1x8", "--policies", "fifo,las", "--out", "o"],
         "t.csv:5: gpus: job 'd' asks for 16 GPUs and the cluster has 8; --skip-impossible"),
        (["--trace", "t.csv", "--cluster", "2x8", "--network", "slow", "--policies", "fifo,las", "--mix", "no"],
         "dally: unknown mix 'no'; known: "),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(
    dally: Run, trace: str, tmp_path: Path, arguments: list[str], message: str
) -> None:
    refused(dally("compare", *arguments), message, tmp_path)
