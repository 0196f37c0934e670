"""Intervals hold as often as they say, whatever the futures got wrong."""

from __future__ import annotations

from random import Random

import pytest

from dally.live.forecast.conformal import Interval, Margins, Observation
from dally.live.forecast.future import quantile
from dally.model import INFINITY


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("factor", "spread", "drift"), [(1.0, 0.2, 0.0), (1.0, 2.0, 0.0), (5.0, 1.0, 0.0), (0.3, 0.7, 0.002)]
)
def test_eighty_of_a_hundred_hold(factor: float, spread: float, drift: float, seed: int) -> None:
    """The futures are off by a factor that may drift, and their own spread (1.0) is not the truth's."""
    rng = Random(seed)
    margins = Margins()
    hits = 0
    questions = 1500
    for turn in range(questions):
        middle_s = 600.0 * 2.0 ** rng.uniform(-3.0, 5.0)
        raw = Interval(middle_s * 0.28, middle_s, middle_s * 3.6)
        wait_s = middle_s * factor * (1.0 + drift * turn) * 2.718 ** rng.gauss(0.0, spread)
        told = margins.interval(raw)
        hits += told.low_s <= wait_s <= told.high_s
        margins.learn(Observation(raw, wait_s, told, 900.0 * turn))
    assert 0.77 <= hits / questions <= 0.83


def test_before_anything_is_known_intervals_are_wide_and_say_so() -> None:
    raw = Interval(300.0, 600.0, 1200.0)
    margins = Margins()
    stated = margins.interval(raw)
    assert not margins.calibrated()
    assert stated.low_s == 0.0
    assert stated.middle_s == pytest.approx(600.0)
    assert stated.high_s > 10 * raw.high_s
    assert margins.interval(Interval(10.0, 20.0, INFINITY)).high_s == INFINITY


@pytest.mark.parametrize("factor", [0.05, 1.0, 10.0])
def test_first_answers_of_a_fresh_daemon_hold(factor: float) -> None:
    """The futures know nothing yet, and are off by a factor, the same for all jobs."""
    rng = Random(1)
    hits = questions = 0
    for _ in range(40):
        margins = Margins()
        for turn in range(30):
            middle_s = 600.0 * 2.0 ** rng.uniform(-3.0, 3.0)
            raw = Interval(middle_s * 0.5, middle_s, middle_s * 2.0)
            wait_s = middle_s * factor * 2.718 ** rng.gauss(0.0, 0.7)
            stated = margins.interval(raw)
            hits += stated.low_s <= wait_s <= stated.high_s
            questions += 1
            margins.learn(Observation(raw, wait_s, stated, 900.0 * turn))
    assert hits / questions >= 0.8


def test_what_was_not_seen_stays_open() -> None:
    """Others came earlier than foreseen: a job that no future starts may begin earlier, and still has no end."""
    margins = Margins(
        Observation(Interval(5000.0, 9000.0, 20000.0), 1000.0, None, 900.0 * turn) for turn in range(40)
    )
    stated = margins.interval(Interval(250000.0, INFINITY, INFINITY))
    assert 20000.0 < stated.low_s < 250000.0
    assert (stated.middle_s, stated.high_s) == (INFINITY, INFINITY)
    seen_half = margins.interval(Interval(5000.0, 9000.0, INFINITY))
    assert seen_half.middle_s < 9000.0
    assert seen_half.high_s == INFINITY


def test_a_burst_of_answers_is_one_lesson() -> None:
    """Thirty answers of one minute all came early: that says little of the next hour."""
    raw = Interval(300.0, 600.0, 1200.0)
    margins = Margins(Observation(raw, 30.0, raw, float(second)) for second in range(30))
    assert (margins.known(), margins.calibrated()) == (30, False)
    assert margins.interval(raw).high_s > 5 * raw.high_s


def test_an_interval_is_in_order_and_never_in_the_past() -> None:
    waits_s = [1.0, 5.0, 1e5] * 10
    margins = Margins(
        Observation(Interval(900.0, 1000.0, 1100.0), wait_s, None, 900.0 * turn)
        for turn, wait_s in enumerate(waits_s)
    )
    told = margins.interval(Interval(0.0, 0.0, 30.0))
    assert 0.0 <= told.low_s <= told.middle_s <= told.high_s < INFINITY


def test_quantiles_lie_between_values() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([1.0], 0.9) == 1.0
    assert quantile([1.0, INFINITY], 0.9) == INFINITY
    assert quantile([], 0.5) == INFINITY
