"""`dally.compare`: the same comparison as the command's, with policies of the caller's own."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import dally
from dally.api import ComparisonResult
from dally.api.inputs import PolicyLike
from dally.cli.main import app
from dally.report.html.build import build_page
from tests.api.own_policies import CLUSTER, JOBS, Broken, Waiting, jct_mean_s

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "jobs.csv"
MINE = f"{ROOT}/examples/my_policy.py:Patient"


def means(found: ComparisonResult) -> dict[str, float]:
    return dict(found.table.select("policy", "jct_mean_s").iter_rows())


def test_it_says_what_the_command_says(tmp_path: Path) -> None:
    policies = ["fifo", "las:lease_s=600", "dally"]
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    found = dally.compare(EXAMPLE, "2x2x8", policies, networks=["slow", "congested"], seeds=[1, 2], out=own)
    options = ["--trace", str(EXAMPLE), "--cluster", "2x2x8", "--network", "slow,congested", "--seeds", "1,2"]
    command = ["compare", *options, "--policies", ",".join(policies), "--jobs", "1", "--out", str(theirs)]
    done = CliRunner().invoke(app, [*command, "--no-report"])
    assert done.exit_code == 0, done.output
    for name in ("comparison.json", "table.md", "table.csv", "table.tex", "results.parquet"):
        assert (own / name).read_bytes() == (theirs / name).read_bytes(), name
    assert found.report() == build_page(theirs, "fifo").to_html()
    assert found.rows.drop("cpu_s").equals(pl.read_parquet(theirs / "results.parquet"))
    assert len(found.contests) == 2


def test_classes_and_objects_run_beside_names() -> None:
    policies: list[PolicyLike] = [
        Waiting,
        Waiting(30.0),
        "fifo-backfill",
        f"{MINE}:patience_s=200",
        "fifo-backfill",
    ]
    found = dally.compare(JOBS, CLUSTER, policies, workers=2, baseline="fifo-backfill")
    assert means(found) == {
        "Waiting": jct_mean_s(100.0),
        "Waiting-2": jct_mean_s(30.0),
        "fifo-backfill": jct_mean_s(1.0),
        f"{MINE}:patience_s=200": jct_mean_s(100.0),
    }
    run = found.run("Waiting-2")
    assert run.jobs["start_s"].to_list() == [0.0, 0.0, 30.0]
    assert "started on" in str(run.explain("c"))


def test_two_workers_give_what_this_process_gives() -> None:
    policies = ["fifo", f"{MINE}:patience_s=30"]
    here = dally.compare(JOBS, CLUSTER, policies, seeds=[1, 2])
    there = dally.compare(JOBS, CLUSTER, policies, seeds=[1, 2], workers=2)
    assert here.rows.drop("cpu_s").equals(there.rows.drop("cpu_s"))
    assert means(here)[f"{MINE}:patience_s=30"] == jct_mean_s(31.0)


def test_finished_runs_are_kept_but_not_those_of_a_class_that_may_have_changed(tmp_path: Path) -> None:
    def run(own: type[Waiting]) -> dict[str, float]:
        return means(dally.compare(JOBS, CLUSTER, ["fifo-backfill", own], out=tmp_path / "out"))

    assert run(Waiting)["Waiting"] == jct_mean_s(100.0)
    journal = tmp_path / "out" / "runs.jsonl"
    before = len(journal.read_text().splitlines())
    changed = type("Waiting", (Waiting,), {"__init__": lambda self, until_s=30.0: Waiting.__init__(self, until_s)})
    assert run(changed)["Waiting"] == jct_mean_s(30.0)
    assert len(journal.read_text().splitlines()) == before + 5  # five replications; fifo-backfill was not run again


def test_several_traces_have_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,6,100\n")
    late = JOBS.with_columns(submit_s=pl.col("submit_s") + 50)
    named = dally.compare({"early": JOBS, "late": late, "one": path}, CLUSTER, "fifo")
    assert {contest.workload: contest.entries[0].rows[0]["jobs"] for contest in named.contests} == {
        "one": 1, "early": 3, "late": 3
    }  # fmt: skip
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "mine.csv"
    other.write_text("job_id,submit_s,gpus,duration_s\na,0,6,200\n")
    listed = dally.compare([path, other, JOBS, late], CLUSTER, "fifo")
    assert {contest.workload for contest in listed.contests} == {"mine", "mine-2", "trace", "trace-2"}


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = dally.compare(JOBS, CLUSTER, ["fifo"]).run("fifo")
    gc.collect()
    assert run.jobs["job_id"].to_list() == ["a", "b", "c"]  # what it needs is still there
    del run
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"policies": []}, "policies: names none"),
        ({"policies": ["fifo", "lass"]}, "unknown policy 'lass'; did you mean 'las'"),
        ({"policies": [3]}, "policy: int: must be a name"),
        ({"baseline": "las"}, "unknown baseline 'las'; known: fifo"),
        ({"networks": ["slw"]}, "unknown network 'slw'; did you mean 'slow'"),
        ({"networks": ["slow"], "network": "fast"}, "network and networks: give one of them"),
        ({"seeds": [1], "seed": 2}, "seed and seeds: give one of them"),
        ({"seeds": []}, "seeds: none given"),
        ({"seeds": ["one"]}, "seed: 'one': must be of type int"),
        ({"workers": -1}, "workers: -1: must be 0"),
        ({"traces": []}, "traces: none given"),
        ({"traces": [None]}, "trace: NoneType: must be a path or a DataFrame"),
        ({"traces": JOBS.drop("gpus")}, "DataFrame: gpus or num_gpu: no such column"),
        ({"policy": "fifo"}, "unknown keyword 'policy'"),
    ],
)
def test_bad_input_is_an_error_of_its_own(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(dally.InputError, match=problem):
        dally.compare(**{"traces": JOBS, "cluster": CLUSTER, "policies": ["fifo"], **given})


def test_an_error_of_a_policy_comes_through(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="of its own"):
        dally.compare(JOBS, CLUSTER, ["fifo", Broken])
    (tmp_path / "broken.py").write_text(
        "from dally.policies.base import Policy\n\n\nclass Broken(Policy):\n"
        "    def schedule(self, now, queue, cluster):\n        raise ZeroDivisionError('of its own')\n"
    )
    with pytest.raises(dally.InputError, match=r"1 run failed: .*ZeroDivisionError: of its own"):
        dally.compare(JOBS, CLUSTER, ["fifo", f"{tmp_path}/broken.py:Broken"], workers=2)


def test_what_a_comparison_shows(tmp_path: Path) -> None:
    found = dally.compare(EXAMPLE, "2x2x8", ["fifo", "dally"], network="slow")
    assert repr(found) == "<ComparisonResult: 10 runs; mean JCT of dally -35.3% against fifo; print it>"
    lines = str(found).splitlines()
    assert lines[0] == "jobs, network slow: 6 jobs, seed 1, 5 replications"
    assert lines[2].split()[:3] == ["fifo", "85.17", "1.91"]
    assert any(line.startswith("dally") and "-35.3%" in line for line in lines)
    html = found._repr_html_()
    assert '<td style="text-align:right"><b>55.11</b></td>' in html
    assert "Bold: best of its column" in html
    first = found.figures.filter(pl.col("policy") == "dally", pl.col("metric") == "jct_mean_s").row(0, named=True)
    assert (round(first["mean"]), round(first["against_baseline"], 3)) == (3307, -0.353)
    page = found.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    with pytest.raises(dally.InputError, match="policy las: no such run; the policies are fifo, dally"):
        found.run("las")
