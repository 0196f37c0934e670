"""The GPUs that a job has had, from moment to moment."""

from __future__ import annotations

from typing import NamedTuple

from dally.report.explanation.course import GONE, RUNS, Course


class SizeSpan(NamedTuple):
    """For that time a job has so many GPUs."""

    from_s: float
    until_s: float
    gpus: int  # 0: it waits


def size_spans(course: Course, job: int, until_s: float) -> list[SizeSpan]:
    """Of the job of that number up to a moment, in order, without gaps; a move is no change."""
    result: list[SizeSpan] = []
    acts = [act for act in course.acts_of(job) if course.times[act] <= until_s]
    for place, act in enumerate(acts):
        if course.makes[act] == GONE:
            break
        end_s = course.times[acts[place + 1]] if place + 1 < len(acts) else until_s
        gpus = sum(gpus for _, gpus in course.parts(act)) if course.makes[act] == RUNS else 0
        if result and result[-1].gpus == gpus:
            result[-1] = result[-1]._replace(until_s=end_s)
        else:
            result.append(SizeSpan(course.times[act], end_s, gpus))
    return result


def is_elastic(stated: str, spans: list[SizeSpan]) -> bool:
    """Whether a job states sizes, or has had several."""
    return bool(stated) or len({span.gpus for span in spans} - {0}) > 1
