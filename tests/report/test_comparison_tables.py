"""Means, spread, the best in each column, changes from a baseline: by hand."""

from __future__ import annotations

from typing import Any

import pytest
from dally.sweep.comparison import parts_of, to_markdown, to_values
from dally.sweep.figures import COMM, JCT_MEAN, PREEMPTIONS, ratios, spread, unit_of
from dally.sweep.tables import absolute, groups_of, relative

from dally.sweep.row import Row

FIGURES = (JCT_MEAN, COMM, PREEMPTIONS)


def row(policy: str, seed: int, jct_h: float, **more: Any) -> Row:
    figures = {"jct_mean_s": jct_h * 3600, "jct_bound_s": 3600.0, "comm_s": 0.0, "comm_floor_s": 0.0}
    labels = {"workload": "w", "network": "slow", "policy": policy, "seed": seed}
    return {**labels, "jobs": 2, "finished": 2, "preemptions": 3, **figures, **more}


ROWS = [row("fifo", 1, 4), row("fifo", 2, 6), row("las", 1, 2), row("las", 2, 6)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3600.0], "1.00"),
        ([3600.0, None], "1.00"),
        ([3600.0, 9000.0], "1.75 ±0.75"),
        ([3600.0 * 1234.4], "1,234"),
        ([3600.0 * 123.456, 3600.0 * 125.456], "124.5 ±1.0"),
        ([5400.0, 5400.0], "1.50"),
    ],
)
def test_means_and_spread(values: list[float | None], expected: str) -> None:
    found = spread(values)
    assert found is not None
    assert found.shown(3600.0) == expected


def test_nothing_has_no_mean() -> None:
    assert spread([]) is None
    assert spread([None]) is None


@pytest.mark.parametrize(("seconds", "unit"), [(100.0, "s"), (120.0, "min"), (7199.0, "min"), (7200.0, "h")])
def test_units_suit_the_largest(seconds: float, unit: str) -> None:
    assert unit_of([spread([1.0]), None, spread([seconds])])[0] == unit


def test_counts_are_whole() -> None:
    found = spread([3, 5])
    assert found is not None
    assert (found.shown(), found.shown(60.0)) == ("4 ±1", "0.07 ±0.02")


def test_ratios_pair_the_seeds() -> None:
    """4 -> 2 is half, 6 -> 6 is 1: 0.75 on average, though the means say 4/5."""
    found = ratios(ROWS[2:], "jct_mean_s", ROWS[:2], "jct_mean_s")
    assert found == (0.75, 0.5, 1.0)
    assert ratios(ROWS, "comm_s", ROWS, "comm_floor_s") is None


def test_an_absolute_table() -> None:
    table = absolute(groups_of(ROWS, "policy"), FIGURES)
    assert table.headings == ["", "mean JCT, h", "÷ bound", "exposed communication, h", "÷ bound", "preemptions"]
    assert table.marked() == [
        ["fifo", "5.00 ±1.00 ", "5.00 ", "0.00 ", "- ", "3 "],
        ["las", "4.00 ±2.00*", "4.00 ", "0.00 ", "- ", "3 "],
        ["at least", "1.00 ", " ", "0.00 ", " ", " "],
    ]
    assert table.markdown().splitlines()[2:4] == [
        "| `fifo` | 5.00 ±1.00 | 5.00 | 0.00 | - | 3 |",
        "| `las` | **4.00 ±2.00** | 4.00 | 0.00 | - | 3 |",
    ]
    assert table.markdown().splitlines()[4].startswith("| at least |")


def test_who_left_jobs_unfinished_is_not_best() -> None:
    rows = [*ROWS, row("quitter", 1, 0.1, finished=1), row("quitter", 2, 0.1)]
    best = [line[0] for line in absolute(groups_of(rows, "policy"), FIGURES).marked() if line[1].endswith("*")]
    assert best == ["las"]


def test_equals_share_the_mark_and_if_all_are_equal_there_is_none() -> None:
    rows = [row("a", 1, 2), row("b", 1, 2.0000001), row("c", 1, 3)]
    assert [cell[1].best for cell in absolute(groups_of(rows, "policy"), FIGURES).lines[:3]] == [True, True, False]
    assert not any(cell[1].best for cell in absolute(groups_of(rows[:2], "policy"), FIGURES).lines)


def test_a_relative_table() -> None:
    table = relative(groups_of(ROWS, "policy"), FIGURES, "fifo")
    assert table.headings == ["against fifo", "mean JCT", "exposed communication", "preemptions"]
    assert [[cell.text for cell in line] for line in table.lines] == [
        ["fifo", "+0.0%", "-", "+0.0%"],
        ["las", "-25.0% ±25.0", "-", "+0.0%"],
    ]


def test_parts_are_workloads_on_networks() -> None:
    parts = parts_of([*ROWS, {**row("las", 1, 2), "network": ""}])
    assert [part.title() for part in parts] == ["w, network slow: 2 jobs, seeds 1, 2", "w: 2 jobs, seed 1"]
    assert list(parts[0].groups) == ["fifo", "las"]
    text = to_markdown(parts, "fifo")
    assert text.count("## w") == 2
    assert text.count("| against fifo |") == 1, "the second part lacks the baseline"
    values = to_values(parts, "fifo")
    assert [(entry["policy"], entry["seeds"]) for entry in values] == [
        ("fifo", [1, 2]),
        ("las", [1, 2]),
        ("las", [1]),
    ]
    assert values[1]["jct_mean_s"] == {
        "mean": 14400.0, "low": 7200.0, "high": 21600.0, "against_baseline": -0.25, "bound": 3600.0,
        "times_bound": 4.0,
    }  # fmt: skip
    assert values[1]["makespan_s"] is None
