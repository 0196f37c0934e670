"""What can be asked about the time to come, and what the futures say."""

from __future__ import annotations

from dataclasses import dataclass, field

from dally.live.forecast.estimator import Effort, Estimator
from dally.live.forecast.fates import Fates
from dally.live.forecast.past_jobs import PastJob
from dally.live.forecast.present import Present, load_present
from dally.live.forecast.smaller import most_gpus_now
from dally.model import NEVER, Job
from dally.policies.placement.best_fit import best_fit


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
    (found,) = fates.values()
    starts_now = max(found.starts_s()) <= present.now
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
    found: dict[int, float] = {}
    for tier in range(cluster.root + 1):
        place = best_fit(cluster, tier, job.gpus, job.group)
        if place is not None:
            place.tier = cluster.topology.tier_of(place)
            found.setdefault(int(place.tier), present.state.speed.slowdown(job, place)[0])
    return found
