"""Levels over time, worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from dally.metrics.over_time import (
    fragmentation,
    held_gpus,
    link_loads,
    step_means,
    time_edges,
    uplink_names,
    waiting_jobs,
)

EVENTS = pl.DataFrame(
    [
        (0.0, "submit", "a"), (0.0, "start", "a"), (2.0, "submit", "b"), (4.0, "preempt", "a"), (4.0, "start", "b"),
        (6.0, "renew", "b"), (7.0, "finish", "b"), (7.0, "start", "a"), (10.0, "finish", "a"),
    ],
    schema=["time_s", "kind", "job_id"], orient="row",
)  # fmt: skip
JOBS = pl.DataFrame({"job_id": ["a", "b"], "gpus": [4, 8]})


def test_edges_cover_the_time() -> None:
    assert time_edges(0.0, 10.0, 4) == [0.0, 2.5, 5.0, 7.5, 10.0]
    assert time_edges(5.0, 5.0, 2)[-1] > 5.0
    instant = time_edges(1.7e9, 1.7e9, 240)  # a run that ends at once, by the clock of 1970
    assert len(set(instant)) == 241
    assert instant == sorted(instant)


@pytest.mark.parametrize(
    ("times", "values", "edges", "expected"),
    [
        ([0.0, 2.0, 3.0], [1.0, 5.0, 0.0], [0.0, 2.0, 4.0], [1.0, 2.5]),
        ([1.0], [2.0], [0.0, 2.0, 4.0], [1.0, 2.0]),  # 0 before the first
        ([0.0, 1.0, 1.0], [1.0, 9.0, 3.0], [0.0, 2.0], [2.0]),  # the last at an instant counts
        ([], [], [0.0, 1.0, 2.0], [0.0, 0.0]),
    ],
)  # fmt: skip
def test_step_means(times: list[float], values: list[float], edges: list[float], expected: list[float]) -> None:
    series = pl.Series(times, dtype=pl.Float64), pl.Series(values, dtype=pl.Float64)
    assert step_means(*series, edges) == pytest.approx(expected)


def test_held_gpus_and_waiting_jobs_follow_the_log() -> None:
    held = held_gpus(EVENTS, JOBS)
    # 4 until 4, 8 until 7, 4 until 10
    assert step_means(held["time_s"], held["level"], [0.0, 4.0, 7.0, 10.0, 12.0]) == pytest.approx([4, 8, 4, 0])
    waits = waiting_jobs(EVENTS)
    # b from 2 to 4, a from 4 to 7
    assert step_means(waits["time_s"], waits["level"], [0.0, 2.0, 4.0, 7.0, 10.0]) == pytest.approx([0, 1, 1, 0])


def test_fragmentation_counts_each_sample_once() -> None:
    slots = pl.DataFrame(
        {"time_s": [0.0, 0.0, 5.0], "free_gpus": [8, 8, 4], "fragmentation": [0.5, 0.5, 1.0], "gpus": [1, 2, 1]}
    )
    assert fragmentation(slots).rows() == [(0.0, 0.5, 4.0), (5.0, 1.0, 4.0)]


def test_link_loads_hold_until_the_next() -> None:
    events = pl.DataFrame(
        {"time_s": [0.0, 5.0, 5.0], "kind": ["link", "link", "submit"], "link": ["rack r0", "rack r0", None],
         "load": [0.8, 0.2, None]}
    )  # fmt: skip
    assert link_loads(events, ["rack r0", "rack r1"], [0.0, 5.0, 10.0]) == [pytest.approx([0.8, 0.2]), [0.0, 0.0]]


@pytest.mark.parametrize(
    ("tiers", "names", "expected"),
    [
        (["machine", "network"], [["m0", "m1"], ["network"]], ["machine m0", "machine m1"]),
        (["machine", "rack", "network"], [["m0"], ["r0", "r1"], ["network"]], ["rack r0", "rack r1"]),
        (["machine", "rack", "pod", "network"], [["m0"], ["r0"], ["p0"], ["n"]], ["pod p0", "rack r0"]),
    ],
)  # fmt: skip
def test_uplinks_are_those_above_the_machine_if_there_are_any(
    tiers: list[str], names: list[list[str]], expected: list[str]
) -> None:
    assert uplink_names(tiers, names) == expected
