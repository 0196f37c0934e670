"""Disturbances as they are stated, and what is said of them, by hand and on a small cluster."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from benchmarks.stress import arguments as stress_arguments
from benchmarks.stress import ground_of, mean_jcts_h, recovery, report, runs_of
from benchmarks.stress_cases import BURST, CASES, NONE, Ground, burst, overloaded

from dally.benchmark.cells import DAY_S
from dally.cluster.spec import read_topology
from dally.metrics.record import Record
from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.traces import read_history, read_outages
from dally.traces.changes import gpu_s


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A job of 16 GPUs for half an hour every hour of two days: a quarter of 32 GPUs."""
    rows = "".join(f"j{hour},{3600 * hour},16,1800\n" for hour in range(48))
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\n" + rows)
    scenario = Scenario(str(tmp_path / "t.csv"), "2x2x8", "", network="slow")
    return Ground(read_history(tmp_path / "t.csv"), scenario, 0, tmp_path)


def test_an_overload_brings_as_much_as_it_says(ground: Ground) -> None:
    """A day of 32 GPUs is 32 · 24 GPU-hours; 1.3 times that less 24 · 8 is 100.8 jobs of 8 GPU-hours."""
    added = overloaded(ground)
    assert len(added) == 48, "each job can come again once"
    assert {row.stated for row in added} == {1800.0}
    more = [row._replace(stated=40 * 3600.0) for row in ground.history.rows]
    added = overloaded(ground._replace(history=ground.history._replace(rows=more)))
    today = [row for row in more if row.submit_s < DAY_S]
    assert gpu_s(today) > 1.3 * 32 * DAY_S
    assert added == [], "the day had enough by itself"


def test_a_burst_is_200_gangs_at_noon(ground: Ground) -> None:
    added = burst(ground)
    assert len({row.job_id for row in added}) == BURST
    assert {row.submit_s for row in added} == {DAY_S / 2}


def test_a_rack_is_lost_as_a_whole(ground: Ground) -> None:
    scenario = CASES["rack"].scenario(ground)
    topology = read_topology(scenario.cluster)
    outages = read_outages(Path(scenario.failures), topology.machine_numbers())
    assert outages == [(0, 43200.0, 64800.0), (1, 43200.0, 64800.0)]


@pytest.mark.parametrize(
    ("waits", "hour"), [([9, 9, 1, 9, 1, 1, 1, 9], 4), ([1, 1, 1], 0), ([9, 9], None), ([9, 1], 1)]
)
def test_recovered_is_three_hours_in_a_row(waits: list[float], hour: int | None) -> None:
    assert recovery(waits, [0.0] * len(waits), 1.0) == hour


def test_jobs_count_that_finished_in_both() -> None:
    usual = pl.DataFrame({"job_id": ["a", "b", "c"], "jct_s": [3600.0, 7200.0, 3600.0]})
    disturbed = pl.DataFrame({"job_id": ["a", "b", "c", "d"], "jct_s": [7200.0, 10800.0, None, 1.0]})
    assert mean_jcts_h(usual, disturbed) == (1.5, 2.5)


def test_every_case_on_a_small_cluster(ground: Ground) -> None:
    """Without half the machines a gang of 16 still fits: nobody waits. Behind 200 gangs others do."""
    records: dict[tuple[str, str], Record] = {
        (run.labels["case"], run.labels["policy"]): execute(run.scenario)
        for run in runs_of(ground, list(CASES), "fifo-backfill")
    }
    tables = {title.partition(":")[0]: table.texts()[0] for title, table in report(ground, list(CASES), records)}
    assert set(tables) == set(CASES)
    assert tables["rack"][6] == "0"
    assert tables["burst"][1] == "0.50"
    assert float(tables["burst"][2]) > 1.0
    assert int(tables["burst"][6]) > 10
    assert records["network", "fifo-backfill"].summary["comm_s"] > records[NONE, "fifo-backfill"].summary["comm_s"]


def test_a_workload_is_generated_where_there_are_no_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["stress", "--shared", str(tmp_path), "--days", "1", "--day", "0"])
    ground = ground_of(stress_arguments(), tmp_path / "made")
    assert len(ground.history.rows) > 50
    assert max(row.submit_s for row in ground.history.rows) < DAY_S
