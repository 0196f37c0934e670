"""The forecast of one job: an interval that holds as often as it says, places, and what waiting buys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dally.live.forecast.conformal import CONFIDENCE, Interval, Margins, Observation
from dally.live.forecast.future import Fates
from dally.live.forecast.question import Answer
from dally.live.wall_clock import WallClock
from dally.model import INFINITY

LOW: Final = (1.0 - CONFIDENCE) / 2.0


@dataclass(frozen=True)
class TierChance:
    """Starting at one tier."""

    tier: str
    chance: float  # share of the futures in which it starts at all
    start_s: float | None  # the median moment of those
    slowdown: float | None  # the mean of those
    now: float | None  # the slowdown of a place that is free now


@dataclass(frozen=True)
class Forecast:
    """When a job starts, as moments of the engine's clock; `high_s` None: later than was looked at."""

    at_s: float
    low_s: float
    middle_s: float | None
    high_s: float | None
    confidence: float
    futures: int
    seen: float  # share of the futures in which it started
    learnt_from: int  # earlier answers that the interval is corrected by
    tiers: tuple[TierChance, ...] = ()
    slowdown: float | None = None  # the mean over all starts
    pays_from_s: float | None = (
        None  # a job of so much work ends sooner if it waits than in the best place free now
    )
    gpus_now: int = 0  # with so many GPUs it would start now; 0: nothing smaller would

    @property
    def is_now(self) -> bool:
        """Whether it starts at once, whatever comes."""
        return self.high_s is not None and self.high_s <= self.at_s


def raw_interval(fates: Fates, now: float) -> Interval:
    """The futures' own quantiles, as seconds from now."""
    low_s, middle_s, high_s = (fates.start_s(share) - now for share in (LOW, 0.5, 1.0 - LOW))
    return Interval(min(low_s, fates.reached_s - now), middle_s, high_s)


def forecast_of(
    answer: Answer, number: int, margins: Margins, tiers: list[str], overdue: Iterable[Observation] = ()
) -> Forecast:
    """What to tell of one job; `overdue`: what was said of others that wait, and for how long they have."""
    fates, now = answer.fates[number], answer.now
    raw = raw_interval(fates, now)
    certain = len(fates.started) == fates.futures() > 0 and all(one.start_s <= now for one in fates.started)
    record = raw if certain else margins.interval(raw, overdue)
    return Forecast(
        at_s=now,
        low_s=now + record.low_s,
        middle_s=_moment(now, record.middle_s),
        high_s=_moment(now, record.high_s),
        confidence=CONFIDENCE,
        futures=fates.futures(),
        seen=len(fates.started) / max(1, fates.futures()),
        learnt_from=margins.known(),
        tiers=tuple(_chances(fates, answer.places, tiers)),
        slowdown=fates.slowdown(),
        pays_from_s=pays_from_s(fates, answer),
        gpus_now=answer.gpus_now,
    )


def _moment(now: float, wait_s: float) -> float | None:
    return None if wait_s == INFINITY else now + wait_s


def _chances(fates: Fates, places: dict[int, float], tiers: list[str]) -> list[TierChance]:
    chances = fates.chances()
    result = []
    for tier in sorted({*chances, *places}):
        start_s = fates.start_at_s(tier)
        result.append(
            TierChance(tiers[tier], chances.get(tier, 0.0), start_s, fates.slowdown(tier), places.get(tier))
        )
    return result


def pays_from_s(fates: Fates, answer: Answer) -> float | None:
    """Waiting takes time and brings a closer place: from how much work on that is worth it.

    None: there is no place now, or the one to wait for is no faster.
    """
    later, wait_s = fates.slowdown(), fates.start_s(0.5) - answer.now
    if not answer.places or later is None or wait_s == INFINITY:
        return None
    at_once = min(answer.places.values())
    return wait_s / (at_once - later) if at_once > later else None


def start_text(forecast: Forecast | None, clock: WallClock) -> str:
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
