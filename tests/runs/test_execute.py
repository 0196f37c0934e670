"""One way to run: the same record and the same folder for every caller, and what a record must be."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from dally.cli.main import app
from dally.metrics.record import TABLES
from dally.metrics.simulated import Simulated
from dally.metrics.summary import summarize
from dally.policies.registry import build
from dally.runs.assemble import assemble
from dally.runs.execute import execute
from dally.runs.folder import SUMS, FolderRecord
from dally.runs.scenario import Scenario
from dally.testing.strategies import Case, cases
from dally.traces import reading
from dally.traces.rows import Reading, TraceRow
from tests.examples import many

MEASURED = ("wall_s", "cpu_s", "peak_rss_mb")
# A row without GPUs, one without a duration, and a job that is too large.
TRACE = "job_id,submit_s,gpus,duration_s\na,0,8,100\nb,1,4,50\nx,2,,5\ny,3,1,\nc,5,8,30\nlarge,6,99,9\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    (tmp_path / "t.csv").write_text(TRACE)
    return Scenario(
        str(tmp_path / "t.csv"), "1x2x8", "las", {"lease_s": "20"}, network="slow", skip_impossible=True
    )


def invoke(*words: str) -> None:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_compare_leaves_the_folder_that_simulate_leaves(scenario: Scenario, tmp_path: Path) -> None:
    options = ["--trace", scenario.trace, "--cluster", "1x2x8", "--network", "slow", "--skip-impossible"]
    invoke("simulate", *options, "--policy", "las", "--set", "lease_s=20", "--out", str(tmp_path / "one"))
    invoke("compare", *options, "--policies", "las:lease_s=20", "--out", str(tmp_path / "many"), "--jobs", "1")
    [folder] = (tmp_path / "many" / "runs").iterdir()
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(path.name for path in folder.iterdir())
    for name in files:
        ours, theirs = ((where / name).read_bytes() for where in (tmp_path / "one", folder))
        if name == "summary.json":
            assert unmeasured(json.loads(ours)) == unmeasured(json.loads(theirs))
        elif name != SUMS:  # which has the digest of what was measured
            assert ours == theirs, name
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["unused"] == {"without GPUs": 1, "without a duration": 1}
    assert (summary["skipped"], summary["notes"]) == (1, {})


def unmeasured(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name not in MEASURED}


def test_a_record_read_back_is_the_record(scenario: Scenario, tmp_path: Path) -> None:
    scenario = replace(scenario, until_s=120.0)
    made = execute(scenario, out=tmp_path / "run")
    read = FolderRecord(tmp_path / "run")
    for name in TABLES:
        assert_frame_equal(made.table(name), read.table(name))
    for name in ("jobs", "all_events", "events", "decisions", "slots"):
        assert_frame_equal(getattr(made, name), getattr(read, name))
    assert (made.origin, read.origin) == ("simulation", "folder")
    assert made.summary == read.summary
    assert (made.tiers, made.end_s, made.job("b")) == (read.tiers, read.end_s, read.job("b"))
    assert made.topology.names == read.topology.names
    assert read.scenario.policy == made.scenario.policy == "las"


def test_nothing_is_written_when_the_input_is_wrong(scenario: Scenario, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="unknown policy"):
        execute(replace(scenario, policy="lass"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_record_made_by_hand_has_no_scenario() -> None:
    record = Simulated(Case([((), 8)], [(0.0, 8, 10.0)]).run(build("fifo")))
    assert summarize(record)["finished"] == 1
    with pytest.raises(LookupError):
        _ = record.scenario


# A trace is parsed once.


def test_many_runs_parse_a_trace_once_and_share_no_job(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    rows = reading._rows

    def counted(one: Reading, name: str) -> Iterable[TraceRow]:
        parsed.append(name)
        return rows(one, name)

    monkeypatch.setattr(reading, "_rows", counted)
    records = [execute(replace(scenario, policy=policy, settings={})) for policy in ("fifo", "las", "srtf")]
    assert parsed == ["csv"]
    assert len({id(job) for record in records for job in record.outcomes}) == 9
    assert [record.unused for record in records] == [records[0].unused] * 3
    assert records[0].unused is not records[1].unused
    execute(replace(scenario, strict=False, zone="Asia/Shanghai"))
    assert parsed == ["csv", "csv"]


def test_a_trace_that_changed_is_read_again(scenario: Scenario) -> None:
    assert len(assemble(scenario)[0].jobs) == 3
    Path(scenario.trace).write_text(TRACE + "d,9,1,1\n")
    assert len(assemble(scenario)[0].jobs) == 4


def test_rows_that_are_kept_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", 5)
    monkeypatch.setattr(reading, "_CACHE", {})
    for jobs in (3, 2, 4, 6):  # 3 and 2 fit together, 4 drives both out, 6 are too many to keep
        path = tmp_path / f"{jobs}.csv"
        path.write_text("job_id,submit_s,gpus,duration_s\n" + "".join(f"j{n},0,1,1\n" for n in range(jobs)))
        assert len(reading.read_csv(path, 8).jobs) == jobs
        assert sum(size for _, size in reading._CACHE.values()) == {3: 3, 2: 5, 4: 4, 6: 4}[jobs]


# What a duration is.


@pytest.mark.parametrize("column", ["compute_s", "iterations"])
def test_durations_are_set_when_the_run_is_assembled(column: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"job_id,submit_s,gpus,{column},model\nlate,9,1,100,vgg16\nfirst,0,1,200,vgg16\n")
    trace = reading.read_csv(path, 8)
    assert [(job.job_id, job.duration_s) for job in trace.jobs] == [("first", -1.0), ("late", -1.0)]
    assert (trace.length, trace.stated) == (column, [200.0, 100.0])
    simulation, _ = assemble(Scenario(str(path), "1x1x8", "fifo"))
    first, late = (job.duration_s for job in simulation.jobs)
    assert (first, late) == (200.0, 100.0) if column == "compute_s" else first == 2 * late > 0.0


# Bounds under --until.


def test_the_floor_of_communication_counts_work_done(tmp_path: Path) -> None:
    # One gang of 16 over two machines, its closest placement: it loses exactly the floor, however early we stop.
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s,model\na,0,16,10000,vgg16\n")
    whole = execute(Scenario(str(tmp_path / "t.csv"), "1x2x8", "fifo", network="slow"))
    half = execute(Scenario(str(tmp_path / "t.csv"), "1x2x8", "fifo", network="slow", until_s=5000.0))
    assert whole.summary["comm_s"] == pytest.approx(whole.summary["comm_floor_s"], rel=1e-3)
    assert half.summary["comm_s"] == pytest.approx(half.summary["comm_floor_s"], rel=1e-3)
    assert half.summary["comm_floor_s"] == pytest.approx(whole.summary["comm_floor_s"] / 2, rel=1e-3)


@settings(max_examples=many(60), deadline=None)
@given(cases(), st.floats(0.0, 1.0))
def test_no_bound_is_beaten_however_early_the_clock_stops(case: Case, share: float) -> None:
    end_s = case.run(build("fifo-backfill")).now
    case = replace(case, network="congested", until_s=case.jobs[0][0] + share * max(0.0, end_s - case.jobs[0][0]))
    summary = summarize(Simulated(case.run(build("fifo-backfill"))))
    for figure, bound in (
        ("comm_s", "comm_floor_s"),
        ("makespan_s", "makespan_bound_s"),
        ("jct_mean_s", "jct_bound_s"),
    ):
        assert summary[figure] >= summary[bound] * (1 - 1e-4) - 1e-6, figure


def test_the_tables_need_no_simulation_afterwards(scenario: Scenario) -> None:
    record = execute(scenario)
    assert record.jobs["status"].to_list() == ["finished"] * 3
    assert record.events.filter(pl.col("kind") == "finish").height == 3
