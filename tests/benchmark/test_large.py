"""The costs of large clusters, on a small one: enough jobs wait, and every pass is timed."""

from __future__ import annotations

import pytest
from benchmarks.large import filled, pass_times_ms, verdict
from benchmarks.standing_queue import long_ones, rows, waiting_of
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 60))
def test_where_the_smallest_go_first_the_rest_waits(sizes: list[int], gpus: int) -> None:
    waiting = waiting_of(sizes, gpus)
    running = sorted(sizes)[: len(sizes) - waiting]
    assert sum(running) <= gpus
    assert waiting == 0 or sum(running) + sorted(sizes)[len(running)] > gpus


def test_as_few_stand_in_line_as_it_takes() -> None:
    found = [job.gpus for job in long_ones(gpus=64, waiting=5)]
    assert waiting_of(found, 64) == 5
    assert waiting_of(found[:-1], 64) < 5


def test_long_jobs_come_minute_by_minute_and_others_at_a_steady_pace() -> None:
    stamps = [float(row.split(",")[2]) for row in list(rows(gpus=50_000, waiting=100, later=3))[1:]]
    assert stamps == sorted(stamps)
    assert stamps[-3:] == [6002.0, 6004.0, 6006.0]
    assert sum(stamp % 60.0 == 0.0 for stamp in stamps) > 2_000  # the long ones, and one in 30 of the others


def test_passes_are_timed_while_jobs_wait() -> None:
    simulation = filled("2x4x8", 40, 10, "fifo-backfill", "slow")
    assert len(simulation.state.queue) >= 30
    assert simulation.state.cluster.free_gpus < 8
    times_ms = pass_times_ms(simulation, 10)
    assert len(times_ms) == 10
    assert times_ms == sorted(times_ms)
    assert simulation.now > 6000.0


@pytest.mark.parametrize(("value", "word"), [(20.0, "fine"), (20.1, "MISSED")])
def test_a_figure_stands_beside_its_limit(value: float, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict("a pass", value, 20.0, "ms") == (word == "fine")
    assert word in capsys.readouterr().out
