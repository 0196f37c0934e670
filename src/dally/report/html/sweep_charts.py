"""The charts of a sweep: what each parameter does to a figure, alone and in pairs, and how much it matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dally.metrics.metric_list import SHARE, SPAN, Metric
from dally.metrics.spread import spread
from dally.metrics.summary import Row
from dally.metrics.sweeping import NOISE, SEED, TOGETHER, importances, is_number, mean_by
from dally.report.html.axes import (
    WIDE,
    Axis,
    category_axis,
    count_axis,
    fitted_span_axis,
    log_count_axis,
    share_axis,
)
from dally.report.html.charts import DOTS, HEAT, STACK, Chart, Series, Total

GREY = 7
MOST_VALUES = 40  # of a parameter, to have a row each


def short(name: str) -> str:
    """A varied parameter without its prefix."""
    return name.removeprefix("set.")


def label(value: Any) -> str:
    """A value of a parameter."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def unit_of(name: str) -> str:
    """The unit of a parameter, from the end of its name."""
    units = {"_s": "seconds", "_gbps": "GB/s", "_bytes": "bytes", "policy": "name"}
    return next((unit for ending, unit in units.items() if name.endswith(ending)), "value")


def metric_axis(metric: Metric, low: float, high: float) -> Axis:
    """An axis for a figure that holds these two and little more."""
    if metric.unit == SPAN:
        return fitted_span_axis(metric.title, low, high)
    if metric.unit == SHARE:
        return share_axis(metric.title, min(high, 1.0), low=low)
    return count_axis(metric.title, high, low=low if low > high / 2 else 0.0)


def importance_chart(rows: Sequence[Row], names: Sequence[str], metric: Metric) -> list[Chart]:
    """How much of the figure's variance each parameter explains; nothing if there is none."""
    result = importances(rows, names, metric.key)
    if not result or len(names) < 2:
        return []
    shares = {name: share for name, share in result.items() if name in names or share >= 0.005}
    places = {name: float(place) for place, name in enumerate(shares)}
    chosen = [name for name in shares if name in names]
    rest = [name for name in shares if name not in names]
    series = [Series("one parameter", 0, [shares[name] for name in chosen], [places[name] for name in chosen])]
    if rest:
        series.append(Series("all else", GREY, [shares[name] for name in rest], [places[name] for name in rest]))
    return [
        Chart(
            f"importance-{metric.key}", f"What matters for {metric.title}",
            "Share of the variance over all runs that a parameter explains by itself; "
            f"“{TOGETHER}”: what only their combination does; “{NOISE}”: what differs with the seed alone.",
            STACK, share_axis("explained", max(shares.values()), unit="% of the variance"),
            category_axis("parameter", "name", [short(name) for name in shares]), series,
            totals=[Total(places[name], share, share, share) for name, share in shares.items()],
        )
    ]  # fmt: skip


def effect_chart(rows: Sequence[Row], settings: Sequence[Row], name: str, metric: Metric) -> Chart:
    """A figure over one parameter: each setting a dot, and the mean over the others with its range over seeds."""
    means = mean_by(rows, name, metric.key)
    lows, highs = _ranges(rows, name, metric.key, list(means))
    shown = [row for row in settings if row.get(metric.key) is not None and row[name] is not None]
    values = [float(row[metric.key]) for row in shown]
    y = metric_axis(metric, min(*values, *lows, *means.values()), max(*values, *highs, *means.values()))
    ranged = " Lines: its least and its most over seeds." if lows else ""
    note = f"Small: every setting, the mean of its seeds. Large: the mean over all settings.{ranged}"
    title = f"{metric.title} by {short(name)}"
    numbers = [float(value) for value in means if is_number(value)]
    if len(numbers) == len(means) and len(numbers) > 1:
        series = [
            Series("settings", GREY, [float(row[name]) for row in shown], values, look="small"),
            Series("mean", 0, numbers, list(means.values()), lows, highs, look="joined"),
        ]
        return Chart(f"effect-{short(name)}-{metric.key}", title, note, DOTS, number_axis(name, numbers), y, series)
    order = {value: float(place) for place, value in enumerate(means)}
    series = [
        Series("settings", GREY, values, [order[row[name]] for row in shown], look="small"),
        Series("mean", 0, list(means.values()), list(order.values()), lows, highs),
    ]
    labels = category_axis(short(name), unit_of(name), [label(value) for value in means])
    return Chart(f"effect-{short(name)}-{metric.key}", title, note, DOTS, y, labels, series)


def number_axis(name: str, numbers: Sequence[float]) -> Axis:
    """The axis of a parameter, logarithmic if its values are far apart."""
    low, high = min(numbers), max(numbers)
    if low > 0 and high / low >= WIDE:
        return log_count_axis(short(name), low, high, unit_of(name))
    return count_axis(short(name), high, unit_of(name), low)


def _ranges(rows: Sequence[Row], name: str, key: str, values: Sequence[Any]) -> tuple[list[float], list[float]]:
    """The least and the most over seeds of the mean over all settings, for each value; nothing of one seed."""
    seeds = sorted({row[SEED] for row in rows}, key=str)
    if len(seeds) < 2:
        return [], []
    by_seed = [mean_by([row for row in rows if row[SEED] == seed], name, key) for seed in seeds]
    result = [spread(means.get(value) for means in by_seed) for value in values]
    return [one.low for one in result if one], [one.high for one in result if one]


def pairs(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of parameters that a table of their values can show."""
    few = [name for name in names if 2 <= len({row[name] for row in rows}) <= MOST_VALUES]
    return [(first, second) for place, first in enumerate(few) for second in few[place + 1 :]]


def heat_chart(rows: Sequence[Row], first: str, second: str, metric: Metric) -> Chart:
    """The mean of a figure by two parameters."""
    across, down = list(mean_by(rows, first, metric.key)), list(mean_by(rows, second, metric.key))
    cells = []
    for low in down:
        here = mean_by([row for row in rows if row[second] == low], first, metric.key)
        cells.append([here.get(high, float("nan")) for high in across])
    known = [value for row in cells for value in row if value == value]
    lowest = min(known)
    z = metric_axis(metric, lowest, max(known))
    z = Axis(z.title, "from low to high", "linear", lowest, max(max(known), lowest + 1e-9), z.ticks, z.reads)
    return Chart(
        f"pair-{short(first)}-{short(second)}-{metric.key}",
        f"{metric.title} by {short(first)} and {short(second)}",
        "Mean over seeds and the other parameters.", HEAT,
        category_axis(short(first), unit_of(first), [label(value) for value in across]),
        category_axis(short(second), unit_of(second), [label(value) for value in down]),
        edges=[place - 0.5 for place in range(len(across) + 1)],
        cells=[[value if value == value else -1.0 for value in row] for row in cells], z=z,
    )  # fmt: skip
