"""Cells of large models: what their jobs are made of, and that they run."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from dally.benchmark.cells import FABRIC_WORKLOADS, WORKLOADS, cells, prepare
from dally.benchmark.fabric_cells import rack_sizes, replica_gpus
from dally.runs.execute import execute


def test_cells_bring_their_own_network() -> None:
    assert not FABRIC_WORKLOADS.keys() & WORKLOADS.keys()
    assert [(cell.network, cell.seed) for cell in cells(["nvl72"], ["slow", "fast"], [1, 2])] == [
        ("gb200-nvl72", 1), ("gb200-nvl72", 2),
    ]  # fmt: skip


def test_gangs_of_racks_are_whole_replicas() -> None:
    replicas = replica_gpus()
    assert sum(size.weight for size in rack_sizes()) == pytest.approx(100.0)
    for size in rack_sizes():
        assert size.gpus % replicas[size.model] == 0, size


@pytest.mark.parametrize("name", FABRIC_WORKLOADS)
def test_jobs_are_drawn_by_seed_and_fill_the_share(name: str, shared: Path, tmp_path: Path) -> None:
    texts = [prepare(name, seed, shared, tmp_path).trace.read_text() for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    rows = list(csv.DictReader(texts[0].splitlines()))
    draw = FABRIC_WORKLOADS[name].draw
    assert draw is not None
    assert len(rows) == draw.jobs
    demand = sum(int(row["gpus"]) * float(row["duration_s"]) for row in rows)
    assert demand / draw.gpus / float(rows[-1]["submit_s"]) == pytest.approx(draw.load, rel=0.01)
    replicas = replica_gpus()
    assert all(int(row["gpus"]) % replicas.get(row["model"], 1) == 0 for row in rows if int(row["gpus"]) >= 128)


def test_a_cell_runs(shared: Path, tmp_path: Path) -> None:
    [cell] = cells(["llm-pod"], [], [1])
    ready = prepare("llm-pod", 1, shared, tmp_path)
    short = tmp_path / "short.csv"
    short.write_text("".join(ready.trace.read_text().splitlines(keepends=True)[:41]))
    result = execute(cell.scenario(ready._replace(trace=short), "fifo-backfill", {}))
    assert result.summary["finished"] == 40
