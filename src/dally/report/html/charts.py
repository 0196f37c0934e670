"""What a chart shows, with axes that people can read: the page draws it as SVG, `--figures` by way of Vega."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil, floor, log10
from typing import Any

from dally.metrics.record import Record
from dally.traces.times import find_zone

UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
LOG_TICKS = (
    (0.001, "1 ms"), (0.01, "10 ms"), (0.1, "0.1 s"), (1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"),
    (600.0, "10 min"), (3600.0, "1 h"), (6 * 3600.0, "6 h"), (86400.0, "1 d"), (7 * 86400.0, "1 wk"),
    (30 * 86400.0, "30 d"), (180 * 86400.0, "180 d"), (3 * 365 * 86400.0, "3 yr"),
)  # fmt: skip

OUTLIER = 3.0  # times the median of a chart's bars or lines: an axis that shows it hides the others

WIDE = 20.0  # the largest over the smallest from which on a scale is logarithmic


@dataclass(frozen=True)
class Axis:
    """One axis. `ticks` are (value, label); `reads` says how a value is told: span, share, count or category."""

    title: str
    unit: str
    scale: str  # linear, log or category
    low: float
    high: float
    ticks: list[tuple[float, str]]
    reads: str
    epoch_s: float | None = None  # when its 0 was, if it has dates; the unit is their zone then

    def full_title(self) -> str:
        """The title with its unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


def fitted_high(values: Sequence[float]) -> float:
    """The largest that an axis has to show: what is over OUTLIER times the median is cut off there."""
    ordered = sorted(values)
    limit = OUTLIER * ordered[len(ordered) // 2]
    return max((value for value in ordered if value <= limit), default=ordered[-1])


def round_step(largest: float, desired: int) -> float:
    """A step of 1, 2 or 5 times a power of ten that cuts 0 to `largest` into about so many."""
    rough = max(largest, 1e-9) / desired
    power = 10.0 ** floor(log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * 0.999)


def time_axis(title: str, low_s: float, high_s: float) -> Axis:
    """Seconds, read in the largest unit that fits, from low to high exactly."""
    unit, unit_s = next((pair for pair in UNITS if high_s - low_s >= 2 * pair[1]), UNITS[-1])
    step = round_step((high_s - low_s) / unit_s, 8)
    first = ceil(low_s / unit_s / step - 1e-9)
    last = floor(high_s / unit_s / step + 1e-9)
    ticks = [(place * step * unit_s, f"{place * step:g}") for place in range(first, last + 1)]
    return Axis(title, unit, "linear", low_s, max(high_s, low_s + 1e-9), ticks, "span")


def span_axis(title: str, high_s: float) -> Axis:
    """Seconds from 0, read in the largest unit that fits, up to a round number."""
    high_s = max(high_s, 1e-9)
    unit, unit_s = next((pair for pair in UNITS if high_s >= 2 * pair[1]), UNITS[-1])
    step = round_step(high_s / unit_s, 5)
    count = max(1, ceil(high_s / unit_s / step - 1e-9))
    ticks = [(place * step * unit_s, f"{place * step:g}") for place in range(count + 1)]
    return Axis(title, unit, "linear", 0.0, count * step * unit_s, ticks, "span")


def fitted_span_axis(title: str, low_s: float, high_s: float) -> Axis:
    """Seconds between two round numbers around them, for dots and lines: bars need an axis from 0."""
    if low_s > 0 and high_s / low_s >= WIDE:
        return log_span_axis(title, low_s * 0.9, high_s * 1.1)
    unit, unit_s = next((pair for pair in UNITS if high_s >= 2 * pair[1]), UNITS[-1])
    plain = count_axis(title, high_s / unit_s, unit, low_s / unit_s)
    ticks = [(value * unit_s, label) for value, label in plain.ticks]
    return Axis(title, unit, "linear", plain.low * unit_s, plain.high * unit_s, ticks, "span")


def log_span_axis(title: str, low_s: float, high_s: float) -> Axis:
    """Seconds on a logarithmic scale, each tick with its own unit."""
    low_s = max(low_s, LOG_TICKS[0][0])
    high_s = max(high_s, low_s * 10)
    ticks = [(value, label) for value, label in LOG_TICKS if low_s <= value <= high_s]
    units = sorted({label.split()[1] for _, label in ticks}, key=[label.split()[1] for _, label in LOG_TICKS].index)
    unit = f"{units[0]} to {units[-1]}, log scale" if len(units) > 1 else f"{units[0] if units else 's'}, log scale"
    return Axis(title, unit, "log", low_s, high_s, ticks, "span")


def share_axis(title: str, high: float = 1.0, unit: str = "%", low: float = 0.0) -> Axis:
    """A share from 0, or a round number of percent below `low`, up to a round one."""
    step = 0.25 if (low, high) == (0.0, 1.0) else round_step(max(high - low, 1e-4) * 100, 5) / 100
    first = floor(low / step + 1e-9)
    last = max(first + 1, ceil(high / step - 1e-9))
    ticks = [(place * step, f"{place * step * 100:g}") for place in range(first, last + 1)]
    return Axis(title, unit, "linear", first * step, last * step, ticks, "share")


def count_axis(title: str, high: float, unit: str = "count", low: float = 0.0) -> Axis:
    """Numbers from `low` up to a round one."""
    step = round_step(max(high - low, 1e-9), 5)
    if unit in ("count", "jobs") and low == 0.0:
        step = max(step, 1.0)
    first, last = floor(low / step + 1e-9), max(ceil(high / step - 1e-9), floor(low / step + 1e-9) + 1)
    ticks = [(place * step, f"{place * step:,g}") for place in range(first, last + 1)]
    return Axis(title, unit, "linear", first * step, last * step, ticks, "count")


def log_count_axis(title: str, low: float, high: float, unit: str) -> Axis:
    """Positive numbers on a logarithmic scale."""
    powers = range(floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9) + 1)
    wide = len(powers) > 3
    steps = [10.0**power * factor for power in powers for factor in ((1,) if wide else (1, 2, 5))]
    ticks = [(value, f"{value:,g}") for value in steps if low * 0.999 <= value <= high * 1.001]
    return Axis(
        title, f"{unit}, log scale" if unit else "log scale", "log", low, max(high, low * 1.001), ticks, "count"
    )


def category_axis(title: str, unit: str, labels: list[str]) -> Axis:
    """One place per label, the first on top."""
    ticks = [(float(place), label) for place, label in enumerate(labels)]
    return Axis(title, unit, "category", -0.5, max(len(labels), 1) - 0.5, ticks, "category")


CLOCK = "time since the trace's start"
DAY_S = 86400
STEPS_S = (60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200)
STEPS_DAYS = (1, 2, 7, 14, 30, 90, 365)
MOST_TICKS = 8
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def clock_axis(run: Record, low_s: float, high_s: float) -> Axis:
    """The axis of a chart over time."""
    plain = time_axis(CLOCK, low_s, high_s)
    epoch_s = run.summary.get("epoch_s")
    if epoch_s is None or high_s - low_s < 2 * STEPS_S[0]:
        return plain
    zone = run.scenario.zone
    first, last = (datetime.fromtimestamp(epoch_s + at_s, find_zone(zone)) for at_s in (low_s, high_s))
    years = str(first.year) if first.year == last.year else f"{first.year} to {last.year}"
    ticks = [(time.timestamp() - epoch_s, label) for time, label in date_ticks(first, last)]
    return replace(plain, title=f"date in {years}", unit=zone, ticks=ticks, epoch_s=epoch_s)


def date_ticks(first: datetime, last: datetime) -> list[tuple[datetime, str]]:
    """Round local times between the two, a few, with labels."""
    long_s = last.timestamp() - first.timestamp()
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    step_s = next((step for step in STEPS_S if long_s / step <= MOST_TICKS), 0)
    result = []
    if step_s:
        # In absolute time: when clocks change, hours are twice there or missing.
        at_s = midnight.timestamp()
        while at_s <= last.timestamp():
            time = datetime.fromtimestamp(at_s, first.tzinfo)
            result.append((time, _day(time) if (time.hour, time.minute) == (0, 0) else f"{time:%H:%M}"))
            at_s += step_s
    else:
        days = next((step for step in STEPS_DAYS if long_s / DAY_S / step <= MOST_TICKS), STEPS_DAYS[-1])
        time = midnight
        while time <= last:
            result.append((time, _day(time)))
            time += timedelta(days=days)  # a local time: days of 23 and 25 hours count as days
    return [(time, label) for time, label in result if first <= time <= last]


def _day(time: datetime) -> str:
    return f"{time.day} {MONTHS[time.month - 1]}"


LINES, STEPS, DOTS, STACK, HEAT = "lines", "steps", "dots", "stack", "heat"


@dataclass(frozen=True)
class Series:
    """One colour of a chart. Points (x, y); `lows` and `highs` make dots ranges: along x, or a y with numbers."""

    name: str
    colour: int  # number in the page's palette
    xs: list[float]
    ys: list[float]
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    look: str = ""  # of dots: small, or joined by a line


@dataclass(frozen=True)
class Total:
    """What the bars of a row add up to, and the least and the most of it over runs."""

    row: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    """A chart: `stack` adds up the xs of each y; `heat` has rows of `cells` between `edges`, read by `z`.

    What goes beyond an axis is cut off there, and said.
    """

    name: str  # of its file
    title: str
    note: str
    kind: str
    x: Axis
    y: Axis
    series: list[Series] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    cells: list[list[float]] = field(default_factory=list)
    z: Axis | None = None
    totals: list[Total] = field(default_factory=list)  # of a stack: written behind its bars, with a whisker
    accents: dict[str, int] = field(default_factory=dict)  # the colour of labels that stand out

    def to_page(self) -> dict[str, Any]:
        """As the page's script reads it: plain values, numbers cut to what can be seen."""
        record = asdict(self)
        for axis, source in (("x", self.x), ("y", self.y), ("z", self.z)):
            if source is not None:
                record[axis] = {**record[axis], "title": source.full_title()}
        shown = {key: _cut(value) for key, value in record.items() if value not in ([], {}, None)}
        if self.x.epoch_s is not None:
            shown["x"] |= {"epoch_s": self.x.epoch_s, "zone": self.x.unit}  # whole: digits cut off would be days
        return shown


def _cut(value: Any) -> Any:
    """Floats with 5 significant digits, integers where they are whole."""
    if isinstance(value, float):
        short = float(f"{value:.5g}")
        return int(short) if short.is_integer() else short
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items() if item not in ([], None)}
    if isinstance(value, (list, tuple)):
        return [_cut(item) for item in value]
    return value
