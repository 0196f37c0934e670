"""The leaderboard: what is chosen on earlier windows alone, and what is said of the last."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.leaderboard import chosen_of, lines_of, page

from dally.learning.settings_search import DALLY_RANGES, search
from dally.sweep.policy_list import Chosen

RESULT: dict[str, Any] = {
    "cell": "venus80", "network": "slow",
    "heuristics": {"dally": [100.0] * 5, "las": [*[90.0] * 4, 200.0], "fifo": [*[500.0] * 4, 50.0]},
    "learned": {
        "order": [{"mean_s": value, "cpu_s": 3.0} for value in (190.0, 192.0, 194.0)],
        "place": [{"mean_s": value, "cpu_s": 3.0} for value in (200.0, 201.0, 202.0)],
    },
}  # fmt: skip


def test_the_rival_is_chosen_without_the_last_window() -> None:
    assert chosen_of(RESULT) == "las"
    order, place = lines_of(RESULT)
    assert order.change == pytest.approx(-0.04)
    assert order.low == pytest.approx(-0.04 - 4.30 * 0.01 / 3**0.5, abs=1e-4)
    assert place.change == pytest.approx(0.005)
    assert order.cpu_s == 9.0


def test_null_results_are_on_the_page() -> None:
    text = page([RESULT])
    assert "order: reached. At least" not in text
    assert "order: reached." in text
    assert "place: not reached." in text
    assert "`las` 0.06" in text
    assert "`fifo` 0.01" in text


def test_a_search_keeps_the_usual_constants_unless_validation_agrees() -> None:
    def better(chosen: Chosen) -> float:
        return float(chosen.settings.get("stick", 0.7)) / 0.7

    found = search("dally", DALLY_RANGES, better, better, 1, 3, 5)
    assert float(found.chosen.settings["stick"]) < 0.7
    assert found.evaluations == 15
    assert search("dally", DALLY_RANGES, better, lambda chosen: 1.0, 1, 3, 5).chosen == Chosen("dally", {})
    assert search("dally", DALLY_RANGES, better, better, 1, 3, 5) == found
