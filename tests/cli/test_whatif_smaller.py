"""The smallest cluster that keeps waits, and the interval of a mean over days."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally.sweep.whatif.smaller import interval
from tests.cli.conftest import Run

HEAD = "job_id,user,submit_s,gpus,duration_s,wait_s\n"


def test_interval_of_equal_values() -> None:
    assert interval([(1000.0 * number, 5.0) for number in range(50)]) == (5.0, 5.0)


def test_interval_holds_the_mean() -> None:
    low, high = interval([(1000.0 * number, float(number % 7)) for number in range(700)])
    assert low < 3.0 < high


def test_idle_machines_go(dally: Run, tmp_path: Path) -> None:
    """Two jobs of 4 GPUs at a time on 16: half of the machines keep every wait at 0, fewer do not."""
    jobs = [f"j{number},ana,{100 * (number // 2)},4,50,0" for number in range(40)]
    (tmp_path / "t.csv").write_text(HEAD + "\n".join(jobs) + "\n")
    words = ("t.csv", "--topology", "4x4", "--network", "none", "--current", "fifo")
    done = dally("whatif", *words, "--seed", "1", "--save-gpus", "--json")
    assert done.returncode == 0, done.stderr
    saving = json.loads(done.stdout)["save_gpus"]
    assert (saving["saved_gpus"], saving["smallest"]["gpus"]) == (8, 8)
    assert saving["tried"]["3"]["wait_mean_s"] == pytest.approx(25.0)


def test_two_questions_at_once(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEAD + "a,ana,0,4,50,0\n")
    done = dally("whatif", "t.csv", "--topology", "4x4", "--save-gpus", "--buy")
    assert done.returncode == 2
    assert "one of them" in done.stderr


def test_settings_count_and_a_job_that_fits_no_longer_ends_the_search(dally: Run, tmp_path: Path) -> None:
    """Jobs of 8 GPUs on two machines of 4: neither machine can go, which is an answer and no error."""
    jobs = [f"j{number},ana,{100 * number},{8 if number % 2 else 4},50,0" for number in range(20)]
    (tmp_path / "t.csv").write_text(HEAD + "\n".join(jobs) + "\n")
    words = ("t.csv", "--topology", "2x4", "--network", "none", "--current", "fifo", "--policy", "las")
    done = dally("whatif", *words, "--set", "lease_s=700", "--save-gpus", "--json")
    assert done.returncode == 0, done.stderr
    saving = json.loads(done.stdout)["save_gpus"]
    assert (saving["policy"], saving["saved_gpus"], saving["tried"]["1"]) == ("las:lease_s=700", 0, None)
    refused = dally("whatif", *words, "--set", "no_such=1", "--save-gpus")
    assert refused.returncode == 2
    assert "has no parameter 'no_such'" in refused.stderr


def test_purchases_side_by_side(dally: Run, tmp_path: Path) -> None:
    """A queue of 8-GPU jobs on two machines: a third machine shortens waits, spares do nothing without failures."""
    jobs = [f"j{number},ana,{10 * number},8,100,0" for number in range(12)]
    (tmp_path / "t.csv").write_text(HEAD + "\n".join(jobs) + "\n")
    words = (
        "t.csv",
        "--topology",
        "2x8",
        "--network",
        "none",
        "--current",
        "fifo",
        "--seed",
        "1",
        "--buy",
        "--json",
    )
    done = dally("whatif", *words, "--failure-rate", "0.0001", "--out", "answer")
    assert done.returncode == 0, done.stderr
    bought = {one["what"]: one for one in json.loads(done.stdout)["buy"]}
    assert bought["+1 machine"]["longer_s"] < 0 < bought["today"]["wait_mean_s"]
    assert "no failure of the replay delays a job" in bought["spares"]["why_not"]
    assert "no next better preset" in bought["faster links"]["why_not"]
    assert (tmp_path / "answer" / "report.html").exists()
