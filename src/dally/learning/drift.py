"""Whether work has changed: lengths of jobs that ended, then and now."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import log, sqrt
from typing import Final

from dally.model import FINISHED, Job

BY_CHANCE: Final = 0.001  # how often like samples may be taken for different ones
LATEST: Final = 40  # ended jobs that are compared with the evidence of a change
FEWEST: Final = 20


def ended(job: Job, now_s: float) -> bool:
    """Whether the job was done by then."""
    return job.status == FINISHED and job.finish_s <= now_s


def differs(one: Sequence[float], other: Sequence[float], by_chance: float = BY_CHANCE) -> bool:
    """Whether two samples have different distributions, by the test of Kolmogorov and Smirnov."""
    if min(len(one), len(other)) < FEWEST:
        return False
    size = len(one) * len(other) / (len(one) + len(other))
    return distance(one, other) > sqrt(-0.5 * log(by_chance / 2.0) / size)


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference of the shares that are no longer than a length."""
    first, second = sorted(one), sorted(other)
    return max(
        abs(bisect_right(first, value) / len(first) - bisect_right(second, value) / len(second))
        for value in (*first, *second)
    )


def has_drifted(jobs: Iterable[Job], now_s: float, since_s: float, evidence: Sequence[float]) -> bool:
    """Whether jobs that came after a change and ended last otherwise than those that it was based on."""
    come = [job for job in jobs if job.submit_s > since_s and ended(job, now_s)]
    latest = sorted(come, key=lambda job: job.finish_s)[-LATEST:]
    return differs([job.duration_s for job in latest], evidence)
