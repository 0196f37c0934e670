"""`dally sweep` from end to end; interruptions are in tests/sweep."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Run, refused

TRACE = "job_id,submit_s,gpus,duration_s\na,0,4,1000\nb,1,8,500\nc,2,4,300\n"


def test_flags_and_a_file_say_the_same(dally: Run, trace: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        '[base]\ntrace = "t.csv"\ncluster = "1x1x8"\n[grid]\npolicy = ["las", "dally-paper"]\n'
        '[random]\nsamples = 3\nset.lease_s = "60:600:log"\n'
    )
    one = dally("sweep", "plan.toml", "--out", "one")
    flags = ["--vary", "policy=las,dally-paper", "--vary", "lease_s=60:600:log", "--samples", "3"]
    two = dally("sweep", "--trace", trace, "--cluster", "1x1x8", *flags, "--out", "two")
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    assert (tmp_path / "one" / "results.parquet").read_bytes() == (
        tmp_path / "two" / "results.parquet"
    ).read_bytes()
    table = pl.read_parquet(tmp_path / "one" / "results.parquet")
    assert table.columns[:2] == ["policy", "set.lease_s"]
    assert len(table) == 6
    assert table["set.lease_s"].dtype == pl.Float64
    assert "6 of 6 runs in one/results.parquet" in one.stdout


def test_the_best_come_first_over_seeds(dally: Run, trace: str) -> None:
    """sjf runs c beside a; fifo makes it wait for b."""
    flags = ["--vary", "policy=fifo,sjf", "--vary", "seed=1,2", "--out", "o"]
    done = dally("sweep", "--trace", trace, "--cluster", "1x1x8", *flags)
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert [line[:2] for line in lines if line[0] in ("1", "2")] == [["1", "sjf"], ["2", "fifo"]]
    worst = dally("sweep", "--trace", trace, "--cluster", "1x1x8", *flags, "--sort", "-jct_mean_s", "--top", "1")
    assert [line.split()[:2] for line in worst.stdout.splitlines() if line.strip()][2] == ["1", "fifo"]


def test_more_samples_keep_those_that_are_there(dally: Run, trace: str, tmp_path: Path) -> None:
    flags = ["--trace", trace, "--cluster", "1x1x8", "--policy", "las", "--vary", "lease_s=60:600", "--out", "o"]
    assert dally("sweep", *flags, "--samples", "2").returncode == 0
    journal = (tmp_path / "o" / "runs.jsonl").read_text()
    assert dally("sweep", *flags, "--samples", "5").returncode == 0
    grown = (tmp_path / "o" / "runs.jsonl").read_text()
    assert grown.startswith(journal)
    assert grown.count("\n") == 5


def test_folders_of_runs_if_wanted(dally: Run, trace: str, tmp_path: Path) -> None:
    flags = ["--trace", trace, "--cluster", "1x1x8", "--vary", "policy=fifo,las", "--out", "o"]
    assert dally("sweep", *flags).returncode == 0
    assert not (tmp_path / "o" / "runs").exists()
    assert dally("sweep", *flags, "--keep-runs").returncode == 0
    assert sorted(path.name for path in (tmp_path / "o" / "runs").iterdir()) == ["fifo", "las"]


def test_a_setting_under_which_no_job_finishes_has_no_times(dally: Run, trace: str, tmp_path: Path) -> None:
    done = dally("sweep", "--trace", trace, "--cluster", "1x1x8", "--vary", "until_s=0,1e6", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert next(line.split()[3:9] for line in done.stdout.splitlines() if " † " in line) == ["-"] * 6
    assert dally("report", "o").returncode == 0
    assert "1 of 2 runs failed or finished no job" in (tmp_path / "o" / "report.html").read_text()


def test_runs_that_fail_are_told_and_tried_again_next_time(dally: Run, trace: str, tmp_path: Path) -> None:
    """Job b needs 8 GPUs: the cluster of 4 is impossible."""
    flags = ["--trace", trace, "--vary", "cluster=1x1x4,1x1x8,1x2x8", "--out", "o"]
    done = dally("sweep", *flags, "--json")
    assert done.returncode == 1
    assert done.stderr.startswith("dally: 1 run failed:\n  cluster 1x1x4: InputError: ")
    found = json.loads(done.stdout)
    assert [row["cluster"] for row in found["rows"]] == ["1x1x8", "1x2x8"]
    assert len(found["failures"]) == 1
    assert pl.read_parquet(tmp_path / "o" / "results.parquet")["cluster"].to_list() == ["1x1x8", "1x2x8"]
    assert dally("sweep", *flags).returncode == 1
    assert (tmp_path / "o" / "runs.jsonl").read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "o"], "trace is missing"),
        (["no.toml", "--out", "o"], "no.toml: cannot be read"),
        (["t.csv", "--cluster", "1x8", "--out", "o"], "a plan is TOML, and a trace is given by --trace"),
        (
            ["--trace", "t.csv", "--cluster", "1x8", "--vary", "seed", "--out", "o"],
            "--vary seed: must be NAME=A,B,C",
        ),
        (["--trace", "t.csv", "--cluster", "1x8", "--vary", "sed=1", "--out", "o"], "unknown parameter 'sed'"),
        (
            ["--trace", "t.csv", "--cluster", "1x8", "--vary", "seed=a", "--out", "o"],
            "seed: 'a': must be of type int",
        ),
        (["--trace", "t.csv", "--cluster", "1x8", "--vary", "restart_s=1:9", "--out", "o"], "say how many samples"),
        (
            ["--trace", "t.csv", "--cluster", "1x8", "--vary", "lease_s=9", "--out", "o"],
            "has no parameter 'lease_s'",
        ),
        (["--trace", "t.csv", "--cluster", "1x8", "--out", "o", "--sort", "jct"], "unknown column 'jct'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    dally: Run, trace: str, tmp_path: Path, arguments: list[str], message: str
) -> None:
    refused(dally("sweep", *arguments), message, tmp_path)


def test_a_run_that_stopped_early_is_not_the_best(dally: Run, tmp_path: Path) -> None:
    """Until 600 s the long job is left out of the mean, which is lower for that."""
    (tmp_path / "long.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,8,100\nb,0,8,9000\n")
    done = dally(
        "sweep", "--trace", "long.csv", "--cluster", "2x8", "--policy", "fifo", "--vary", "until_s=600,99999",
        "--out", "swept", "--jobs", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if re.match(r" *[12] +(†|\d)", line)]
    assert [line[:-7] for line in lines[:2]] == [["1", "99999.0"], ["2", "†", "600.0"]], done.stdout
    assert dally("report", "swept").returncode == 0
    page = (tmp_path / "swept" / "report.html").read_text()
    assert re.search(r"Lowest mean JCT: 75\.8\smin with <code>until_s</code>\s=\s99999", page)
