"""What varying a parameter does to a figure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from dally.metrics.comparison import REPLICATION

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
