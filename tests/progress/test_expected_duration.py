"""Durations before jobs start: quantiles of their like, and experts that are believed as far as they are right."""

from __future__ import annotations

import random
from math import exp, log

import pytest

from dally.progress.expected_duration import ExpectedDuration, pinball, weighted_quantiles


def test_nothing_is_said_of_the_first_jobs() -> None:
    expected = ExpectedDuration()
    assert expected.forecast("ana", "", 8) is None
    expected.learn("ana", "", 8, 100.0, None)
    assert expected.forecast("ana", "", 8) is None
    expected.learn("ana", "", 8, 200.0, None)
    forecast = expected.forecast("ana", "", 8)
    assert forecast is not None
    assert all(99.0 < value < 201.0 for value in forecast.seconds())


def test_quantiles_of_weighted_values() -> None:
    assert weighted_quantiles([1.0, 3.0], 1.0) == pytest.approx((1.0, 1.0, 2.0, 3.0, 3.0))
    old, new = weighted_quantiles([1.0] * 10 + [5.0] * 4, 0.3), weighted_quantiles([5.0] * 4 + [1.0] * 10, 0.3)
    assert (old[2], new[2]) == (5.0, 1.0)


def test_pinball_is_least_at_the_quantiles() -> None:
    chance = random.Random(1)
    values = [chance.gauss(0.0, 1.0) for _ in range(4000)]

    def loss(*quantiles: float) -> float:
        return sum(pinball(quantiles, value) for value in values)

    right = loss(-1.28, -0.67, 0.0, 0.67, 1.28)
    assert right < loss(0.0, 0.0, 0.0, 0.0, 0.0)
    assert right < loss(-2.0, -1.5, 0.0, 1.5, 2.0)
    assert pinball((1.0,) * 5, 1.0) == 0.0


def test_what_tells_most_is_learnt() -> None:
    """Durations go by the name here: users and sizes say nothing."""
    chance = random.Random(3)
    expected = ExpectedDuration()
    late, inside = [], 0
    for number in range(1500):
        user, name, gpus = f"u{chance.randrange(3)}", f"n{chance.randrange(4)}", 8
        seconds = 100.0 * 10.0 ** int(name[1:]) * exp(chance.gauss(0.0, 0.2))
        forecast = expected.forecast(user, name, gpus)
        if forecast is not None and number >= 1000:
            late.append(abs(forecast.quantiles[2] - log(seconds)))
            inside += forecast.quantiles[0] <= log(seconds) <= forecast.quantiles[-1]
        expected.learn(user, name, gpus, seconds, forecast)
    assert sum(late) / len(late) < 0.35
    assert 0.6 < inside / len(late) < 0.95
