"""A recipe: the few numbers that a workload is drawn from, as recipes.toml holds them."""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import log
from typing import Any, Final

from dally.errors import unknown

RECIPE_NAMES: Final = ("philly-like", "venus-like", "lingjun-like", "itp-like", "batch", "poisson")


@dataclass(frozen=True)
class Curve:
    """Durations at some points of [0, 1]; between them log duration runs straight."""

    points: tuple[float, ...]
    durations_s: tuple[float, ...]

    def at(self, point: float) -> int:
        """The duration at a point, in whole seconds, so that machines whose `pow` differs agree."""
        piece = min(bisect_right(self.points, point), len(self.points) - 1)
        low_s, high_s = self.durations_s[piece - 1], self.durations_s[piece]
        left, right = self.points[piece - 1], self.points[piece]
        along = (point - left) / (right - left)
        return max(1, round(low_s * float((high_s / low_s) ** along)))

    def mean_s(self) -> float:
        """The mean duration."""
        pieces = zip(pairwise(self.points), pairwise(self.durations_s), strict=True)
        return sum(
            (right - left) * ((high_s - low_s) / log(high_s / low_s) if high_s > low_s else low_s)
            for (left, right), (low_s, high_s) in pieces
        )


@dataclass(frozen=True)
class Recipe:
    """What jobs look like, when they come, whose they are and how they end; fields as in docs/workloads.md."""

    name: str
    about: str
    source: str
    borrowed: str  # what the source does not say, and where it was taken from
    arrivals: str  # rhythm, batch (all at once) or poisson
    cluster_gpus: int
    jobs: int
    days: float
    shares: dict[int, float]  # percent of jobs by GPUs
    curves: dict[int, Curve]  # of durations, by the most GPUs they hold for
    users: int
    user_skew: float  # jobs of the k-th busiest user go with k to the minus this
    hours: tuple[float, ...] = (1.0,) * 24  # arrivals by hour, counted from the start of the trace
    weekdays: tuple[float, ...] = (1.0,) * 7  # arrivals by day, counted likewise
    day_spread: float = 1.0  # a usual factor between a day and the mean of its weekday
    burst: float = 0.0  # share of jobs that follow another of their user and size within a minute
    burst_gap_s: float = 0.0
    recurring: float = 0.0  # share of jobs that repeat one of their user and size, bursts included
    ends_below_s: tuple[float, ...] = ()  # quarters of durations
    ends: dict[str, tuple[float, ...]] = field(default_factory=dict)  # percent by status, for each quarter

    def curve_of(self, gpus: int) -> int:
        """The class of durations that gangs of so many GPUs belong to."""
        return next(most for most in self.curves if gpus <= most)


def find_recipe(name: str) -> Recipe:
    """The recipe of that name, or an InputError that suggests the nearest."""
    if name not in RECIPE_NAMES:
        raise unknown("recipe", name, RECIPE_NAMES)
    return _recipes()[name]


@cache
def _recipes() -> dict[str, Recipe]:
    tables = tomllib.loads((files(__package__) / "recipes.toml").read_text(encoding="utf-8"))
    points = tuple(percent / 100 for percent in tables.pop("quantiles"))
    return {name: _recipe(name, points, table) for name, table in tables.items()}


def _recipe(name: str, points: tuple[float, ...], table: dict[str, Any]) -> Recipe:
    durations_s = table.pop("durations_s")
    shares = table.pop("shares")
    ends = table.pop("ends", {})
    lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
    return Recipe(
        name=name,
        shares={int(gpus): share for gpus, share in shares.items()},
        curves={int(most): Curve(points, tuple(knots)) for most, knots in durations_s.items()},
        ends={status: tuple(shares) for status, shares in ends.items()},
        **(table | lists),
    )
