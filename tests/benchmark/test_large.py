"""The costs of large clusters, on a small one: enough jobs wait, and every pass is timed."""

from __future__ import annotations

import pytest
from benchmarks.large import filled, pass_times_ms, standing, verdict


def test_so_many_wait_and_others_come_once_a_second() -> None:
    """Two of each size: the smallest first, 1 to 16 twice but for one 16 are 94 of 100 GPUs; 5 wait."""
    rows = [row.split(",") for row in standing(gpus=100, waiting=5, later=3)]
    at_once = [int(row[3]) for row in rows if row[2] == "0"]
    assert len(at_once) == 18
    assert [row[2] for row in rows[len(at_once) :]] == ["1", "2", "3"]


def test_passes_are_timed_while_jobs_wait() -> None:
    simulation = filled("2x4x8", 40, 10, "fifo-backfill", "slow")
    assert len(simulation.state.queue) >= 40
    assert simulation.state.cluster.free_gpus < 8
    times_ms = pass_times_ms(simulation, 10)
    assert len(times_ms) == 10
    assert times_ms == sorted(times_ms)
    assert simulation.now >= 10.0


@pytest.mark.parametrize(("value", "word"), [(20.0, "fine"), (20.1, "MISSED")])
def test_a_figure_stands_beside_its_limit(value: float, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict("a pass", value, 20.0, "ms") == (word == "fine")
    assert word in capsys.readouterr().out
