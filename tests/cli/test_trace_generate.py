"""`dally trace generate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally.traces.generate import RECIPE_NAMES
from tests.cli.conftest import Run

SMALL = ("trace", "generate", "venus-like", "--jobs", "200", "--load", "0.8", "--cluster", "2x4x8")


def test_writes_a_trace_that_simulates(dally: Run, tmp_path: Path) -> None:
    done = dally(*SMALL, "--seed", "3", "--out", "t.csv", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["jobs"], summary["cluster_gpus"], summary["seed"]) == (200, 64, 3)
    assert summary["load"] == pytest.approx(0.8, abs=1e-3)
    assert sum(summary["jobs_by_gpus"].values()) == 200
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0] == "job_id,user,name,submit_s,gpus,duration_s,status"
    assert len(lines) == 201
    run = dally("simulate", "--trace", "t.csv", "--cluster", "2x4x8", "--json")
    assert json.loads(run.stdout)["finished"] == 200


def test_same_seed_same_bytes(dally: Run, tmp_path: Path) -> None:
    for name, seed in (("a.csv.gz", "1"), ("b.csv.gz", "1"), ("c.csv.gz", "2")):
        assert dally(*SMALL, "--seed", seed, "--out", name).returncode == 0
    one, again, other = ((tmp_path / f"{name}.csv.gz").read_bytes() for name in "abc")
    assert one == again
    assert one != other


def test_gpus_say_the_same_as_a_cluster(dally: Run, tmp_path: Path) -> None:
    dally(*SMALL, "--out", "a.csv")
    dally(*SMALL[:-2], "--gpus", "64", "--out", "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_list(dally: Run) -> None:
    rows = json.loads(dally("trace", "generate", "--list", "--json").stdout)
    assert [row["name"] for row in rows] == list(RECIPE_NAMES)
    assert all(row["source"] for row in rows)
    assert all(name in dally("trace", "generate", "--list").stdout for name in RECIPE_NAMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a recipe is missing"),
        (["batch"], "--out is missing"),
        (["poison", "--out", "t.csv"], "unknown recipe 'poison'; did you mean 'poisson'?"),
        (["batch", "--load", "1", "--out", "t.csv"], "all jobs come at once"),
        (["poisson", "--gpus", "8", "--cluster", "1x8", "--out", "t.csv"], "say the same"),
        (["poisson", "--cluster", "8", "--out", "t.csv"], "cluster '8'"),
        (["poisson", "--jobs", "3", "--out", "no/t.csv"], "no/t.csv: cannot be written"),
    ],
)
def test_bad_input_is_one_line(dally: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = dally("trace", "generate", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_has_examples(dally: Run) -> None:
    assert "dally trace generate venus-like" in dally("trace", "generate", "--help").stdout.split("Examples")[1]
