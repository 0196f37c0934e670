"""Workloads on which nothing was tuned, and the table that judges by them, worked out by hand."""

from __future__ import annotations

import gzip
from argparse import Namespace
from pathlib import Path

import pytest
from benchmarks.held_out import SETTINGS, overall, page, report, runs_of
from benchmarks.held_out_loads import (
    WINDOWS,
    Source,
    held_out_loads,
    loaded,
    other_window,
    racks_of_16,
)

from dally.benchmark.cells import WORKLOADS
from dally.cluster.spec import read_topology
from dally.metrics.summary import Row
from dally.traces import read_history
from dally.traces.changes import load_of


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """Venus: a job of 8 GPUs and 1000 s every 1000 s for 20 days, so that days 10 to 20 hold half of them."""
    (tmp_path / "traces").mkdir()
    lines = ["job_id,user,submit_s,gpus,duration_s", *(f"j{i},u,{1000 * i},8,1000" for i in range(1728))]
    (tmp_path / "traces" / WORKLOADS["venus80"].trace).write_bytes(gzip.compress("\n".join(lines).encode()))
    return Source(tmp_path, tmp_path / "made")


def test_racks_of_16_keep_every_machine(source: Source) -> None:
    made = racks_of_16(source, "venus80", 1)
    assert made is not None
    topology = read_topology(made.cluster)
    assert (topology.machine_count(), topology.total_gpus()) == (80, 640)
    assert list(topology.child_counts[1]) == [16] * 5
    assert racks_of_16(source, "lingjun", 1) is None, "its racks are the real ones"


def test_arrivals_are_scaled_to_the_load(source: Source) -> None:
    made = loaded(0.7)(source, "venus80", 1)
    assert made is not None
    history = read_history(made.trace, format="csv")
    assert load_of(history, 640) == pytest.approx(0.7, rel=1e-3)
    assert {row.stated for row in history.rows} == {1000.0}
    assert loaded(0.7)(source, "batch32", 1) is None, "a batch has no load"


def test_a_window_begins_at_0_with_what_is_left_of_running_jobs(source: Source) -> None:
    loads = held_out_loads(other_window, ["venus80", "paper-poisson"], [1], source)
    assert list(loads) == [WINDOWS["venus80"].name], "the paper's jobs have no other window"
    rows = read_history(loads[WINDOWS["venus80"].name][1].trace, format="csv").rows
    assert len(rows) == 1728 - 864
    assert rows[0].submit_s == 0.0


def test_only_the_first_days_are_kept_when_trying(source: Source) -> None:
    made = source._replace(days=0.5).plain("venus80", 1)
    assert len(read_history(made.trace, format="csv").rows) == 44  # 0, 1000, …, 43,000 s


def test_settings_do_not_write_over_each_others_traces(source: Source) -> None:
    given = Namespace(
        shared=source.shared, days=0.0, seeds="1", cells="venus80", networks="slow", policies="dally,las"
    )
    runs = [run for name in ("flat62", "load0.7") for run in runs_of(name, given, source.folder)]
    loads = [load_of(read_history(Path(run.scenario.trace)), 640) for run in runs]
    assert [round(load or 0.0, 3) for load in loads] == [0.013, 0.013, 0.7, 0.7]


def row(policy: str, seed: int, jct_h: float, p99_h: float, comm_s: float) -> Row:
    return {
        "setting": "seeds", "workload": "venus80", "network": "slow", "policy": policy, "seed": seed,
        "jct_mean_s": 3600 * jct_h, "jct_p99_s": 3600 * p99_h, "comm_s": comm_s, "comm_floor_s": 10.0,
        "jobs": 5, "finished": 5,
    }  # fmt: skip


def test_the_table_by_hand() -> None:
    """(8/10 + 9/10) / 2 = 0.85 of las, the lowest mean; gavel has the lowest p99; 11 and 12 s of at least 10."""
    rows = [
        row("dally", 11, 8.0, 50.0, 11.0), row("las", 11, 10.0, 60.0, 30.0), row("gavel", 11, 20.0, 40.0, 30.0),
        row("dally", 12, 9.0, 50.0, 12.0), row("las", 12, 10.0, 60.0, 30.0), row("gavel", 12, 20.0, 44.0, 30.0),
    ]  # fmt: skip
    ((title, table, summed),) = report(rows, "dally")
    assert title == f"seeds: {SETTINGS['seeds'].about}"
    assert table.texts() == [["venus80, slow", "8.50", "10.00", "las", "−15 %", "50 / 42", "1.15"]]
    assert "better by 10 % or more: 1; p99 at most 5 % above the lowest: 0; comm" in summed
    assert report(rows, "sjf") == []
    text = page(report(rows, "dally"), overall(rows, "dally"), "dally,las")
    assert "## All settings\n\nOf 1 cells: " in text
    assert "`philly200, days 61-75`: `philly.csv.gz`, from day 61 until before day 75" in text
    assert "## Seeds: seeds 11, 12, 13" in text
