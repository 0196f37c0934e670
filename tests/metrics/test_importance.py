"""How much parameters matter, on figures whose parts are known."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from dally.metrics.summary import Row
from dally.metrics.sweeping import NOISE, TOGETHER, importances, settings_of


def grid(a: float, b: float, both: float, seeds: float) -> list[Row]:
    """2 × 2 × 2 runs whose figure is the sum of what each does: ±a, ±b, their product, the seed."""
    return [
        {"a": x, "b": y, "seed": s, "jobs": 1, "jct_mean_s": 100 + a * x + b * y + both * x * y + seeds * s}
        for x, y, s in product((-1, 1), (-1, 1), (-1, 1))
    ]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((3.0, 0.0, 0.0, 0.0), {"a": 1.0, "b": 0.0, TOGETHER: 0.0, NOISE: 0.0}),
        ((4.0, 3.0, 0.0, 0.0), {"a": 16 / 25, "b": 9 / 25, TOGETHER: 0.0, NOISE: 0.0}),
        ((0.0, 0.0, 2.0, 0.0), {"a": 0.0, "b": 0.0, TOGETHER: 1.0, NOISE: 0.0}),
        ((0.0, 0.0, 0.0, 5.0), {"a": 0.0, "b": 0.0, TOGETHER: 0.0, NOISE: 1.0}),
    ],
)
def test_shares_are_those_of_the_parts(
    parts: tuple[float, float, float, float], expected: dict[str, float]
) -> None:
    rows = grid(*parts)
    assert settings_of(rows) == ["a", "b"]
    found = importances(rows, ["a", "b"], "jct_mean_s")
    assert found == pytest.approx(expected)
    assert sum(found.values()) <= 1.0 + 1e-9


def test_a_number_drawn_at_random_that_does_nothing_explains_nothing() -> None:
    draw = Random(1)
    rows = [{"x": draw.random(), "y": draw.random()} for _ in range(200)]
    told: list[Row] = [{**row, "jct_mean_s": 10 * row["x"]} for row in rows]
    found = importances(told, ["x", "y"], "jct_mean_s")
    assert next(iter(found)) == "x"
    assert found["x"] > 0.9
    assert found["y"] < 0.05


def test_a_figure_that_never_changes_has_no_importances() -> None:
    assert importances([{"a": 1, "jct_mean_s": 5.0}, {"a": 2, "jct_mean_s": 5.0}], ["a"], "jct_mean_s") == {}
