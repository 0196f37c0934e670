"""What varying parameters does to a figure: its means by value, and how much each parameter matters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import prod
from statistics import fmean, mean
from typing import Any

from dally.metrics.comparison import REPLICATION, by_label
from dally.metrics.summary import Row

SEED = "seed"


def varied_columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What tells the runs apart: the columns before the figures that have more than one value."""
    names = list(rows[0])
    labels = names[: names.index("jobs")]
    return [name for name in labels if name != "folder" and len({row[name] for row in rows}) > 1]


def settings_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What was varied apart from seeds and replications, which only repeat a setting."""
    return [name for name in varied_columns(rows) if name not in (SEED, REPLICATION)]


def is_number(value: Any) -> bool:
    """Whether a parameter's value is a number, also one that is written as text."""
    if isinstance(value, bool) or value is None:
        return False
    try:
        return float(value) - float(value) == 0.0  # neither nan nor infinite
    except (TypeError, ValueError):
        return False


def mean_by(rows: Sequence[dict[str, Any]], name: str, key: str) -> dict[Any, float]:
    """The mean of a figure for each value of a parameter; values ascend if they are numbers."""
    grouped: dict[Any, list[float]] = {}
    for row in rows:
        if row.get(key) is not None and row[name] is not None:
            grouped.setdefault(row[name], []).append(float(row[key]))
    values = sorted(grouped, key=float) if all(is_number(value) for value in grouped) else sorted(grouped, key=str)
    return {value: mean(grouped[value]) for value in values}


BINS = 6  # of a number that was drawn at random: each value of it is there once
NOISE = "seeds"
TOGETHER = "several together"


def importances(rows: Sequence[Row], names: Sequence[str], key: str) -> dict[str, float]:
    """Shares that add up to at most 1: by parameter, largest first; then of several together, and of seeds.

    A parameter's share is that of its main effect: the sum of squares between its values over that of all runs. If
    values were drawn at random it is less what as many groups would explain by chance, with k groups of n runs
    (k − 1) · within / (n − k). {} if the figure is always the same.
    """
    known = [row for row in rows if row.get(key) is not None]
    values = [float(row[key]) for row in known]
    total = _squares(values) if values else 0.0
    if total <= 1e-12 * sum(value * value for value in values):
        return {}
    settings = by_label(known, *names)
    drawn = len(settings) < prod(len({row[name] for row in known}) for name in names)
    alone = {name: max(0.0, _explained(groups_by(known, name), values, total, drawn)) for name in names}
    seeds = sum(_squares([float(row[key]) for row in result]) for result in settings.values()) / total
    scale = min(1.0, (1.0 - seeds) / sum(alone.values())) if sum(alone.values()) else 1.0
    shares = {name: share * scale for name, share in sorted(alone.items(), key=lambda one: (-one[1], one[0]))}
    return {**shares, TOGETHER: max(0.0, 1.0 - seeds - sum(shares.values())), NOISE: seeds}


def groups_by(rows: Sequence[Row], name: str) -> list[Hashable]:
    """The group of each run: its value of the parameter, or of a number of many values the part of the range."""
    values = [row[name] for row in rows]
    different = sorted({float(value) for value in values if is_number(value)})
    if len(different) <= 2 * BINS or not all(is_number(value) for value in values):
        return list(values)
    edges = [different[place * len(different) // BINS] for place in range(1, BINS)]
    return [sum(float(value) >= edge for edge in edges) for value in values]


def _squares(values: Sequence[float]) -> float:
    """The sum of squares around the mean."""
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def _explained(groups: Iterable[Hashable], values: Sequence[float], total: float, drawn: bool) -> float:
    by_group: dict[Hashable, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        by_group.setdefault(group, []).append(value)
    within = sum(_squares(result) for result in by_group.values())
    free = len(values) - len(by_group)
    chance = (len(by_group) - 1) * within / free if drawn and free else 0.0
    return (total - within - chance) / total
