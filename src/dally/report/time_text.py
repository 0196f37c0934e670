"""Times and shares as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from dally.metrics.record import Record
from dally.traces.times import find_zone


def stamp(seconds: float, epoch_s: float | None = None, zone: str = "UTC") -> str:
    """An instant, as a date if second 0 has one, else as day 3 04:05:06; and the seconds it stands for."""
    if epoch_s is not None:
        date = datetime.fromtimestamp(epoch_s + int(seconds), find_zone(zone))
        return f"{date:%Y-%m-%d %H:%M:%S} ({int(seconds)} s)"
    minutes, second = divmod(int(seconds), 60)
    return f"day {minutes // 1440} {minutes // 60 % 24:02d}:{minutes % 60:02d}:{second:02d} ({int(seconds)} s)"


def run_stamp(run: Record, seconds: float) -> str:
    """An instant of the run, with the trace's own date if it has dates."""
    epoch_s = run.summary.get("epoch_s")
    if epoch_s is None:
        return stamp(seconds)
    if run.origin == "live":  # nobody counts from its second 0, and its clock may run faster
        return f"{datetime.fromtimestamp(epoch_s + seconds / run.summary['speed'], UTC):%Y-%m-%d %H:%M:%S} UTC"
    return stamp(seconds, epoch_s, run.scenario.zone)


def run_clock(run: Record, seconds: float) -> str:
    """The same within a sentence: without the seconds it stands for."""
    return run_stamp(run, seconds).partition(" (")[0]


def duration(seconds: float) -> str:
    """A duration in a sentence: 0.5 s, 42 s, 2 min 05 s, 12 min, 1 h 06 min, 2 d 4 h."""
    if seconds < 10.0:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 599.5:
        return _two(round(seconds), 60, "min", "s")
    minutes = round(seconds / 60.0)
    if minutes < 24 * 60:
        return _two(minutes, 60, "h", "min")
    return _two(round(seconds / 3600.0), 24, "d", "h").replace(" 0", " ")


def _two(count: int, per: int, large: str, small: str) -> str:
    """Both units, each if there is any of it."""
    whole, rest = divmod(count, per)
    both = [f"{whole} {large}"] * (whole > 0) + [f"{rest:02d} {small}" if whole else f"{rest} {small}"] * (rest > 0)
    return " ".join(both)


def span(seconds: float) -> str:
    """A duration for people: 42.0 s, 12.5 min, 7.3 h, 4.1 d."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def brief(seconds: float, in_table: bool = False) -> str:
    """A duration with few digits: 42 s, 1.8 h, 4.1 d. In a table always with one behind the point, to line up."""
    if seconds < 0.0:  # a difference that was rounded, or one that is meant
        return f"−{brief(-seconds, in_table)}" if seconds <= -0.05 else brief(0.0, in_table)
    for unit, size in (("d", 2 * 86400.0), ("h", 1.5 * 3600.0), ("min", 1.5 * 60.0), ("s", 0.0)):
        if seconds >= size:
            value = seconds / {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0}[unit]
            break
    if value >= 100:
        return f"{value:,.0f} {unit}"
    text = f"{value:.1f}"
    return f"{text if in_table else text.removesuffix('.0')} {unit}"


def percent(by: float) -> str:
    """A change without its sign: 41 %."""
    return f"{abs(by):.0%}".replace("%", " %")
