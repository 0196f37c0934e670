"""What can be asked about the time to come, and what the futures say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from dally.cluster.capacity import Cluster
from dally.engine.cycle import cycle
from dally.live.forecast.estimator import Effort, Estimator
from dally.live.forecast.future import DrainingMachines, Fates
from dally.live.forecast.future_arrivals import PastJob, past_of
from dally.live.forecast.present import Present, load_present
from dally.model import CANCEL, NEVER, RUNNING, SUBMIT, Event, Job
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
