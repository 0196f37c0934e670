"""The benchmark as runs, as a table and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dally.benchmark.cells import cells
from dally.benchmark.tables_page import benchmark_runs, block_table, page, shared_folder
from dally.metrics.comparison import compare_rows
from dally.metrics.summary import Row
from dally.sweep.policy_list import read_policies

FIGURES = {
    "jobs": 2, "finished": 2, "makespan_s": 7200.0, "makespan_bound_s": 3600.0, "jct_mean_s": 3600.0,
    "jct_bound_s": 1800.0, "jct_p50_s": 3600.0, "jct_p99_s": 3600.0, "jct_1_gpu_s": None,
    "jct_2_to_8_gpus_s": 3600.0, "jct_over_8_gpus_s": 3600.0, "comm_s": 360.0, "comm_floor_s": 36.0,
    "preemptions": 3, "migrations": 0, "cpu_s": 0.5, "comm_gpu_s": 360.0,
}  # fmt: skip


def row(policy: str, seed: int, **figures: Any) -> Row:
    labels = {"workload": "venus80", "network": "slow", "policy": policy, "restart": "62 s", "seed": seed}
    return {**labels, **FIGURES, **figures}


ROWS = [
    row("las:lease_s=1800", 1),
    row("las:lease_s=1800", 2, makespan_s=14400.0),
    row("srsf", 1, makespan_s=5400.0),
]


def test_every_policy_runs_in_every_cell(shared: Path, tmp_path: Path) -> None:
    every = cells(["paper-batch", "paper-poisson"], ["slow", "fast"], [1, 2])
    runs = benchmark_runs(every, read_policies(["las:lease_s=1800,fifo"]), shared, tmp_path, None)
    assert len({run.key for run in runs}) == len(runs) == 2 * 2 * 2 * 2
    assert runs[0].labels == {
        "workload": "paper-batch", "network": "slow", "policy": "las:lease_s=1800", "restart": "1 s per GPU",
        "seed": 1,
    }  # fmt: skip
    flat = benchmark_runs(every, read_policies(["fifo"]), shared, tmp_path, 62.0)
    assert (flat[0].labels["restart"], flat[0].scenario.restart_s) == ("62 s", 62.0)
    assert not {run.key for run in flat} & {run.key for run in runs}


def test_a_table_has_a_line_per_policy_and_a_column_per_network() -> None:
    lines = block_table(compare_rows(ROWS, ""), ["fast", "slow"])
    assert lines[2].split() == ["fast", "slow"]
    place = lines.index("makespan, h")
    assert [line.split() for line in lines[place + 1 : place + 4]] == [
        ["las:lease_s=1800", "-", "3.00", "±1.00"],
        ["srsf", "-", "1.50"],
        ["at", "least", "-", "1.00"],
    ]
    assert lines[1] == "jobs 2; restart 62 s; seeds 1, 2; dally 0.1.0"


def test_the_page_says_how_it_was_written_and_marks_the_best() -> None:
    text = page(compare_rows(ROWS, ""), "dally benchmark --seeds 1")
    assert "Written by `dally benchmark --seeds 1`" in text
    assert "### venus80, slow" in text
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert [cell.removeprefix("| ").removesuffix(" |") for cell in lines[0]] == [
        "", "makespan, h", "÷ bound", "mean JCT, h", "÷ bound", "p50 JCT, h", "p99 JCT, h",
        "mean JCT of 1-GPU jobs, h",
        "mean JCT of 2-8-GPU jobs, h", "mean JCT of larger jobs, h", "exposed communication, h", "÷ alone",
        "preemptions", "migrations",
    ]  # fmt: skip
    assert lines[2][:3] == ["| `las:lease_s=1800`", "3.00 ±1.00", "3.00"]
    assert lines[3][:3] == ["| `srsf`", "**1.50**", "1.50"]
    assert lines[4][:2] == ["| at least", "1.00"]


def test_unfinished_jobs_are_told() -> None:
    lines = block_table(compare_rows([*ROWS, row("fifo", 1, finished=1, makespan_bound_s=9.0)], ""), ["slow"])
    place = lines.index("makespan, h")
    assert lines[place + 3].split() == ["fifo", "2.00", "†"]
    assert lines[place + 4].split() == ["at", "least", "1.00"]


def test_where_the_traces_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALLY_SHARED", str(tmp_path / "mine"))
    assert shared_folder() == tmp_path / "mine"
    monkeypatch.delenv("DALLY_SHARED")
    (tmp_path / "shared").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert shared_folder() == tmp_path / "shared"
