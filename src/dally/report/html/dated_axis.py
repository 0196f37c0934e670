"""Axes of time: dates where the trace has them, else the time since its start."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from dally.metrics.record import Record
from dally.report.html.axes import Axis, time_axis
from dally.traces.times import find_zone

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
    found = []
    if step_s:
        # In absolute time: when clocks change, hours are twice there or missing.
        at_s = midnight.timestamp()
        while at_s <= last.timestamp():
            time = datetime.fromtimestamp(at_s, first.tzinfo)
            found.append((time, _day(time) if (time.hour, time.minute) == (0, 0) else f"{time:%H:%M}"))
            at_s += step_s
    else:
        days = next((step for step in STEPS_DAYS if long_s / DAY_S / step <= MOST_TICKS), STEPS_DAYS[-1])
        time = midnight
        while time <= last:
            found.append((time, _day(time)))
            time += timedelta(days=days)  # a local time: days of 23 and 25 hours count as days
    return [(time, label) for time, label in found if first <= time <= last]


def _day(time: datetime) -> str:
    return f"{time.day} {MONTHS[time.month - 1]}"
