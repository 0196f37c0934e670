"""An estimate in a few words, for those who read no numbers."""

from __future__ import annotations

from datetime import UTC, datetime

from dally.live.forecast.job_forecast import Forecast
from dally.live.wall_clock import WallClock


def start_words(forecast: Forecast | None, clock: WallClock) -> str:
    """When a job starts: now, between two times, or after one; nothing if nobody has looked yet."""
    if forecast is None:
        return ""
    if forecast.is_now:
        return "now"
    early = _when(clock.wall_s(forecast.low_s))
    if forecast.high_s is None:
        return f"after {early} UTC"
    return f"{early} to {_when(clock.wall_s(forecast.high_s))} UTC ({forecast.confidence:.0%})"


def _when(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%d %H:%M}"
