"""What can be asked about a job to come, and its forecast: an interval that holds, places, what waiting buys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from dally.cluster.capacity import Cluster
from dally.engine.cycle import cycle
from dally.live.forecast.conformal import CONFIDENCE, Interval, Margins, Observation
from dally.live.forecast.estimator import Effort, Estimator
from dally.live.forecast.future import DrainingMachines, Fates, Present, load_present
from dally.live.forecast.lifetimes import PastJob, past_of
from dally.live.wall_clock import WallClock
from dally.model import CANCEL, INFINITY, NEVER, RUNNING, SUBMIT, Event, Job
from dally.policies.placement.best_fit import best_fit

MOST_TRIED: Final = 8


def most_gpus_now(content: bytes, preview: PastJob | None, job: Job) -> int:
    """The most GPUs, fewer than it asks for, with which the policy would start the job at once; 0: none.

    A job that waits is taken back and submitted anew, as its user would have to do.
    """
    request = preview or past_of(job)
    number = None if preview is not None else int(job.index)
    for gpus in sizes_below(request.spec.gpus, request.spec.group, load_present(content).state.cluster):
        if _starts(content, replace(request, spec=replace(request.spec, gpus=gpus)), number):
            return gpus
    return 0


def sizes_below(gpus: int, group: int, cluster: Cluster) -> list[int]:
    """Sizes that a user might choose instead, largest first: whole machines, and powers of two."""
    machine = int(max(cluster.topology.gpus[0]))
    steps = {machine * count for count in range(1, gpus // machine + 1)} | {2**power for power in range(20)}
    fitting = sorted((size for size in steps if size < gpus and size % group == 0), reverse=True)
    if len(fitting) <= MOST_TRIED:
        return fitting
    return [fitting[place * (len(fitting) - 1) // (MOST_TRIED - 1)] for place in range(MOST_TRIED)]


def _starts(content: bytes, request: PastJob, instead_of: int | None) -> bool:
    present = load_present(content)
    job = request.again(present.next_number, present.now, NEVER)
    events = [Event(CANCEL, other) for other in present.jobs if other.index == instead_of]
    executor = DrainingMachines(present.state, present.draining)
    cycle(present.state, [*events, Event(SUBMIT, job)], present.now, executor)
    return job.status == RUNNING


@dataclass(frozen=True)
class Question:
    """When jobs that wait will start (by number), or one that is not submitted; in detail if it is about one."""

    numbers: tuple[int, ...] = ()
    preview: PastJob | None = None
    detail: bool = False
    effort: Effort = field(default_factory=Effort)


@dataclass(frozen=True)
class Answer:
    """Fates by number. In detail: the slowdown of places free now, by tier, and the most GPUs that start now."""

    now: float
    fates: dict[int, Fates]
    places: dict[int, float] = field(default_factory=dict)
    gpus_now: int = 0  # fewer than asked for; 0: none, or not looked for


def answer(estimator: Estimator, content: bytes, question: Question) -> Answer:
    """What the futures of that present say."""
    present = load_present(content)
    fates = estimator.fates(content, question.numbers, question.effort, question.preview)
    if not question.detail:
        return Answer(present.now, fates)
    job = _job(present, question)
    (result,) = fates.values()
    starts_now = max(result.starts_s()) <= present.now
    gpus_now = 0 if starts_now else most_gpus_now(content, question.preview, job)
    return Answer(present.now, fates, places_now(present, job), gpus_now)


def _job(present: Present, question: Question) -> Job:
    if question.preview is not None:
        return question.preview.again(present.next_number, present.now, NEVER)
    (number,) = question.numbers
    return next(job for job in present.jobs if job.index == number)


def places_now(present: Present, job: Job) -> dict[int, float]:
    """By tier, the slowdown at the best place that is free now; tiers without one are left out."""
    cluster = present.state.cluster
    result: dict[int, float] = {}
    for tier in range(cluster.root + 1):
        place = best_fit(cluster, tier, job.gpus, job.group)
        if place is not None:
            place.tier = cluster.topology.tier_of(place)
            result.setdefault(int(place.tier), present.state.speed.slowdown(job, place)[0])
    return result


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
    calibrated: bool = True  # they are enough; before, intervals are wide
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
        calibrated=certain or margins.calibrated(),
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
    sure = f"{forecast.confidence:.0%}" if forecast.calibrated else "not calibrated yet"
    return f"{early} to {_when(clock.wall_s(forecast.high_s))} UTC ({sure})"


def _when(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%d %H:%M}"
