"""Runs side by side: means over seeds, the best, the baseline, what a parameter does."""

from __future__ import annotations

from typing import Any

import pytest

from dally.errors import InputError
from dally.metrics.comparison import (
    METRICS,
    best_labels,
    change,
    choose_baseline,
    entries,
    label_of,
    lost_to_network,
)
from dally.metrics.sweeping import is_number, mean_by, varied_columns

JCT = METRICS[0]
COMPUTING = next(metric for metric in METRICS if metric.key == "goodput")
HELD = next(metric for metric in METRICS if metric.key == "utilization")


def row(policy: str, jct_s: float | None, **more: Any) -> dict[str, Any]:
    found = {
        "policy": policy,
        "settings": "",
        "seed": 1,
        "jct_mean_s": jct_s,
        "comm_gpu_s": 1.0,
        "compute_gpu_s": 3.0,
    }
    return {**found, "jct_bound_s": 2.0, **more}


def test_entries_are_means_over_seeds_in_order_of_appearance() -> None:
    found = entries([row("b", 4.0), row("a", 6.0), row("b", 8.0, seed=2), row("a", None)])
    assert [(one.label, one.runs) for one in found] == [("b", 2), ("a", 1)]
    assert found[0].means["jct_mean_s"] == 6.0
    assert found[0].spreads["jct_mean_s"] == pytest.approx(8**0.5)
    assert found[1].spreads["jct_mean_s"] == 0.0
    assert found[0].over_bound(JCT) == 3.0
    assert found[0].means["lost_to_network"] == 0.25


def test_settings_make_another_label() -> None:
    assert label_of(row("las", 1.0, settings="lease_s=5")) == "las lease_s=5"
    assert label_of(row("las", 1.0, settings={"lease_s": "5", "other": None})) == "las lease_s=5"
    assert label_of(row("las", 1.0, settings=None)) == label_of(row("las", 1.0, settings="{}")) == "las"
    assert len(entries([row("las", 1.0), row("las", 2.0, settings="lease_s=5")])) == 2


def test_the_best_of_a_column() -> None:
    found = entries([row("a", 4.0, goodput=0.5), row("b", 3.0, goodput=0.4), row("c", 3.0, goodput=0.5)])
    assert best_labels(found, JCT) == ["b", "c"]
    assert best_labels(entries([row("a", 3.01), row("b", 3.0), row("c", 3.1)]), JCT) == ["a", "b"]  # a tie
    assert best_labels(found, COMPUTING) == ["a", "c"]
    assert best_labels(found, HELD) == []  # fewer GPUs held may be fewer GPUs wasted
    assert best_labels(found[1:], JCT) == []  # all the same: nobody is best


@pytest.mark.parametrize(
    ("labels", "wanted", "expected"),
    [
        (["dally", "fifo", "fifo-backfill"], "", "fifo-backfill"),
        (["dally", "fifo"], "", "fifo"),
        (["las", "dally"], "", "las"),
        (["las", "dally"], "dally", "dally"),
    ],
)
def test_the_baseline(labels: list[str], wanted: str, expected: str) -> None:
    assert choose_baseline(labels, wanted) == expected


def test_an_unknown_baseline_is_refused() -> None:
    with pytest.raises(InputError, match="unknown baseline 'daly'; did you mean 'dally'"):
        choose_baseline(["dally", "fifo"], "daly")


def test_changes_and_shares_without_a_base() -> None:
    assert change(3.0, 4.0) == -0.25
    assert change(3.0, 0.0) is None
    assert lost_to_network({"comm_gpu_s": 0.0, "compute_gpu_s": 0.0}) == 0.0


def test_varied_columns_and_means_by_value() -> None:
    rows = [
        {"policy": "a", "set.x": value, "set.same": 1, "jobs": 5, "jct": jct}
        for value, jct in ((10, 1.0), (9, 5.0), (10, 3.0))
    ]
    assert varied_columns(rows) == ["set.x"]
    assert mean_by(rows, "set.x", "jct") == {9: 5.0, 10: 2.0}
    assert list(mean_by(rows, "set.x", "jct")) == [9, 10]
    assert varied_columns([{"policy": "a", "jobs": 1}, {"policy": "b", "jobs": 2}]) == ["policy"]
    assert [is_number(value) for value in (1, 2.5, "3", "x", True, None, float("nan"), "inf")] == [
        True, True, True, False, False, False, False, False,
    ]  # fmt: skip
