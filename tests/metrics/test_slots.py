"""The slots of one small run, as a table and as a mean."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given

from dally.metrics.simulated import Simulated
from dally.metrics.tables import fragmentation_mean, slots_frame
from dally.policies.registry import build
from dally.testing.strategies import Case, cases

COLUMNS = ["time_s", "free_gpus", "fragmentation", "gpus", "tier", "slots"]


def test_the_slot_table(tmp_path: Path) -> None:
    # Machines of 4 and 2 in one rack. The gang of 3 leaves 1 + 2 free from 0, until its end at 5000.
    case = Case([(("r",), 4), (("r",), 2)], [(0.0, 3, 5000.0)])
    slots_frame(Simulated(case.run(build("fifo")))).write_parquet(tmp_path / "s.parquet")
    table = pl.read_parquet(tmp_path / "s.parquet")
    assert table.columns == COLUMNS
    assert table.rows() == [
        (0.0, 3, 1.0, 1, "machine", 3),
        (0.0, 3, 1.0, 1, "rack", 3),
        (0.0, 3, 1.0, 1, "network", 3),
        (0.0, 3, 1.0, 2, "machine", 1),
        (0.0, 3, 1.0, 2, "rack", 1),
        (0.0, 3, 1.0, 2, "network", 1),
        (0.0, 3, 1.0, 4, "machine", 0),
        (0.0, 3, 1.0, 4, "rack", 0),
        (0.0, 3, 1.0, 4, "network", 0),
        (5000.0, 6, 2 / 6, 1, "machine", 6),
        (5000.0, 6, 2 / 6, 1, "rack", 6),
        (5000.0, 6, 2 / 6, 1, "network", 6),
        (5000.0, 6, 2 / 6, 2, "machine", 3),
        (5000.0, 6, 2 / 6, 2, "rack", 3),
        (5000.0, 6, 2 / 6, 2, "network", 3),
        (5000.0, 6, 2 / 6, 4, "machine", 1),
        (5000.0, 6, 2 / 6, 4, "rack", 1),
        (5000.0, 6, 2 / 6, 4, "network", 1),
    ]


@pytest.mark.parametrize(
    ("name", "jobs", "mean"),
    [
        # Two machines of 4. One GPU: 3 of the 7 free ones cannot serve a gang of 4. Two: 2 of 6.
        ("one sample", [(0.0, 1, 100.0)], 3 / 7),
        ("a run of no length", [(0.0, 1, 0.0)], 3 / 7),
        (
            "each counts until the next",
            [(0.0, 1, 9000.0), (3600.0, 1, 6400.0)],
            (3600 * 3 / 7 + 5400 * 2 / 6 + 1000 * 3 / 7) / 10000,  # sampled again at 9000
        ),
        ("a full cluster is not fragmented", [(0.0, 8, 100.0)], 0.0),
    ],
)
def test_the_mean_fragmentation(name: str, jobs: list[tuple[float, int, float]], mean: float) -> None:
    simulation = Case([(("r",), 4), (("r",), 4)], jobs).run(build("fifo"))
    assert fragmentation_mean(Simulated(simulation)) == pytest.approx(mean), name


def test_a_run_without_a_cycle_has_no_samples() -> None:
    simulation = Case([(("r",), 4)], [(5.0, 1, 1.0)]).simulation(build("fifo"))
    assert fragmentation_mean(Simulated(simulation)) == 0.0
    table = slots_frame(Simulated(simulation))
    assert (table.columns, table.height) == (COLUMNS, 0)


@given(cases())
def test_what_holds_of_every_run(case: Case) -> None:
    simulation = case.run(build("fifo-backfill"))
    table = slots_frame(Simulated(simulation))
    tiers = simulation.state.cluster.topology.tiers
    assert table.filter(pl.col("slots") * pl.col("gpus") > pl.col("free_gpus")).is_empty()
    assert table.filter(
        (pl.col("tier") == tiers[-1]) & (pl.col("slots") != pl.col("free_gpus") // pl.col("gpus"))
    ).is_empty()
    for _, rows in table.group_by("time_s", "gpus"):
        assert rows["tier"].to_list() == tiers
        assert rows["slots"].is_sorted()
    assert 0.0 <= fragmentation_mean(Simulated(simulation)) <= 1.0
