"""`dally simulate` from end to end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.metrics.test_summary import KEYS as SUMMARY_KEYS

FILES = [
    "SHA256SUMS",
    "decisions.parquet",
    "events.parquet",
    "jobs.csv",
    "report.html",
    "scenario.toml",
    "slots.parquet",
    "summary.json",
]
TRACE = "job_id,submit_s,gpus,duration_s\na,0,4,10\nb,1,8,5\nc,2,4,3\n"
KEYS = ["policy", "seed", *SUMMARY_KEYS, "wall_s", "cpu_s", "peak_rss_mb", "compiled"]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    (tmp_path / "t.csv").write_text(TRACE)
    return "t.csv"


def test_leaves_a_folder_and_prints_the_same_summary(dally: Run, trace: str, tmp_path: Path) -> None:
    done = dally("simulate", "--trace", trace, "--cluster", "1x1x8", "--out", "deep/out", "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "deep" / "out").iterdir()) == FILES
    printed = json.loads(done.stdout)
    written = json.loads((tmp_path / "deep" / "out" / "summary.json").read_text())
    volatile = {"wall_s", "cpu_s", "peak_rss_mb"}
    assert {k: v for k, v in printed.items() if k not in volatile} == {
        k: v for k, v in written.items() if k not in volatile
    }
    assert set(KEYS) <= set(printed)
    # dally by default: a 0-10, c 2-5, b 10-15.
    assert (printed["policy"], printed["jct_mean_s"]) == ("dally", (10 + 14 + 3) / 3)


def test_the_table_is_for_people(dally: Run, trace: str) -> None:
    done = dally("simulate", "--trace", trace, "--cluster", "1x1x8", "--policy", "las", "--set", "lease_s=2")
    assert done.returncode == 0
    assert "mean JCT" in done.stdout
    assert "3 of 3" in done.stdout
    assert done.stderr == ""


def test_progress_goes_to_stderr_when_asked_for(dally: Run, trace: str) -> None:
    done = dally("simulate", "--trace", trace, "--cluster", "1x1x8", "--json", "--progress")
    assert json.loads(done.stdout)["finished"] == 3
    assert "3/3 jobs" in done.stderr
    assert "events/s" in done.stderr


def test_a_scenario_repeats_the_run_to_the_bit(dally: Run, trace: str, tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(
        '[[tiers]]\nname = "machine"\n[[tiers]]\nname = "network"\n[[machines]]\ncount = 2\ngpus = 8\n'
    )
    (tmp_path / "down.csv").write_text("machine,fail_s,repair_s\nm1,1,3\n")
    first = dally(
        "simulate", "--trace", trace, "--cluster", "lab.toml", "--policy", "las", "--set", "lease_s=2.5",
        "--failures", "down.csv", "--checkpoint-every", "0.7", "--restart-s", "0.25", "--seed", "9", "--out", "one",
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    (tmp_path / "sub").mkdir()
    again = subprocess.run(
        [sys.executable, "-m", "dally", "simulate", "--scenario", "../one/scenario.toml", "--out", "two"],
        cwd=tmp_path / "sub", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    for name in ("jobs.csv", "events.parquet", "slots.parquet", "scenario.toml"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "sub" / "two" / name).read_bytes()


def test_a_scenario_whose_trace_changed_is_refused(dally: Run, trace: str, tmp_path: Path) -> None:
    assert dally("simulate", "--trace", trace, "--cluster", "1x1x8", "--out", "one").returncode == 0
    (tmp_path / "t.csv").write_text(TRACE + "d,3,1,1\n")
    done = dally("simulate", "--scenario", "one/scenario.toml")
    assert done.returncode == 2
    assert "has changed since the scenario was written" in done.stderr


def test_options_change_a_scenario(dally: Run, trace: str) -> None:
    dally(
        "simulate",
        "--trace",
        trace,
        "--cluster",
        "1x1x8",
        "--policy",
        "las",
        "--set",
        "lease_s=2",
        "--out",
        "one",
    )
    done = dally("simulate", "--scenario", "one/scenario.toml", "--policy", "fifo", "--json")
    assert json.loads(done.stdout)["policy"] == "fifo"


def test_until_and_skip_impossible(dally: Run, trace: str) -> None:
    done = dally("simulate", "--trace", trace, "--cluster", "1x1x4", "--skip-impossible", "--until", "11", "--json")
    summary = json.loads(done.stdout)
    assert (summary["jobs"], summary["finished"], summary["skipped"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster", "1x1x8"], "--trace is missing"),
        (["--trace", "t.csv"], "--cluster is missing"),
        (["--trace", "none.csv", "--cluster", "1x1x8"], "none.csv: cannot be read: No such file or directory"),
        (
            ["--trace", "t.csv", "--cluster", "1x1"],
            "t.csv:2: gpus: job 'a' asks for 4 GPUs and the cluster has 1",
        ),
        (["--trace", "t.csv", "--cluster", "1by8"], "cluster '1by8': neither RxMxG"),
        (["--trace", "t.csv", "--cluster", "t.toml"], "t.toml: cannot be read"),
        (["--trace", "t.csv", "--cluster", "1x1x8", "--policy", "fifi"], "did you mean 'fifo'?"),
        (["--trace", "t.csv", "--cluster", "1x1x8", "--set", "a=1"], "has no parameter 'a'"),
        (["--trace", "t.csv", "--cluster", "1x1x8", "--set", "a"], "--set a: must be KEY=VALUE"),
        (["--trace", "t.csv", "--cluster", "1x1x8", "--out", "t.csv/x"], "t.csv/x: cannot be written"),
        (
            ["--trace", "t.csv", "--cluster", "1x1x8", "--restart-s", "-1"],
            "--restart-s -1: must not be negative",
        ),
        (
            ["--trace", "t.csv", "--cluster", "1x1x8", "--restart-s", "nan"],
            "--restart-s nan: must not be negative",
        ),
        (
            ["--trace", "t.csv", "--cluster", "1x1x8", "--repair-s", "0"],
            "--repair-s 0: must be more than 0 and finite",
        ),
        (["--scenario", "t.csv"], "t.csv:1: "),
        (["--trace", "t.csv", "--cluster", "1x1x8", "--seed", "x"], "Invalid value for '--seed'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    dally: Run, trace: str, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = dally("simulate", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if done.stderr.startswith("dally:"):
        assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def test_a_bad_trace_leaves_no_folder(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,1,x\n")
    assert dally("simulate", "--trace", "t.csv", "--cluster", "1x1x8", "--out", "o").returncode == 2
    assert not (tmp_path / "o").exists()


def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    rows = (f"j{i},{i},{1 + i % 8},{500 + i % 977}" for i in range(200_000))
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\n" + "\n".join(rows) + "\n")
    running = subprocess.Popen(
        [sys.executable, "-m", "dally", "simulate", "--trace", "t.csv", "--cluster", "4x4x8", "--out", "o"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "o").exists() and running.poll() is None:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130, errors
    assert "Traceback" not in errors
    assert list((tmp_path / "o").iterdir()) == []
