"""Effective training time: the closed form against the engine, the best interval, and spares."""

from __future__ import annotations

from math import exp, inf

import pytest

from dally.health.lemons import lemons
from dally.health.training_time import best_interval_s, effective_share, spares
from dally.runs.training_runs import simulated_share


@pytest.mark.parametrize(
    ("machines", "per_day", "every_s", "restart_s"),
    [(1, 0.5, 3600.0, 600.0), (16, 0.05, 1800.0, 300.0), (64, 0.02, 3600.0, 900.0), (128, 0.2, 600.0, 60.0)],
)
def test_engine_and_closed_form_agree(machines: int, per_day: float, every_s: float, restart_s: float) -> None:
    simulated = simulated_share(machines, per_day, every_s, 30.0, restart_s, 1800.0, 1, 600)
    rate = per_day * machines / 86400.0
    assert simulated == pytest.approx(effective_share(rate, every_s, 30.0, restart_s), abs=0.02)


def test_share_without_failures_and_with_far_too_many() -> None:
    assert effective_share(0.0, 3600.0, 36.0, 600.0) == pytest.approx(1.0 / 1.01)
    assert effective_share(0.0, inf, 0.0, 0.0) == 1.0
    assert effective_share(1.0, 3600.0, 36.0, 600.0) == 0.0


def test_best_interval_is_the_best_and_near_young_s() -> None:
    for rate, cost_s in ((1e-6, 60.0), (1e-4, 30.0), (1e-3, 120.0)):
        best_s = best_interval_s(rate, cost_s)
        best = effective_share(rate, best_s, cost_s, 0.0)
        assert best >= max(
            effective_share(rate, best_s * factor, cost_s, 0.0) for factor in (0.8, 0.95, 1.05, 1.25)
        )
    assert best_interval_s(1e-7, 10.0) == pytest.approx((2.0 * 10.0 / 1e-7) ** 0.5, rel=0.01)
    assert best_interval_s(0.0, 10.0) == inf
    assert best_interval_s(1e-5, 0.0) == 1.0


def test_spares_cover_what_is_down_at_once() -> None:
    assert spares(64, 0.0, 86400.0) == 0
    rate, repair_s = 0.01 / 86400.0, 86400.0
    count = spares(100, rate, repair_s, 0.99)
    mean = (100 + count) * 0.01
    poisson = sum(exp(-mean) * mean**down / [1, 1, 2, 6, 24, 120, 720][down] for down in range(count + 1))
    assert poisson > 0.985
    assert 2 <= count <= 5


def test_lemons_are_those_that_chance_does_not_explain() -> None:
    counts = {f"m{place}": place % 2 for place in range(60)} | {"a": 20, "b": 15, "c": 9}
    assert lemons(counts) == ["a", "b", "c"]
    assert lemons({f"m{place}": 1 + place % 4 for place in range(64)}) == []
    assert lemons({"a": 2, "b": 0}) == []
    assert lemons({}) == []
