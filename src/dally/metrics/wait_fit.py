"""How well waits of a replay fit recorded ones.

Waits are heavy-tailed with many zeros: a mean alone hangs on a few jobs, a ratio fails at zero, and single jobs
change places in the queue for nothing. So waits are compared as log(1 + wait ÷ 1 minute): 10 % of an hour count as
10 % of a day, and below a minute differences hardly count.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import NamedTuple

from dally.job_spec import JobSpec
from dally.metrics.distribution import size_class, size_label

MINUTE_S = 60.0
FEWEST = 20  # jobs of a size that count by themselves; fewer go with the next smaller size


class Wait(NamedTuple):
    """A job's wait as recorded and as replayed, in seconds."""

    job_id: str
    gpus: int
    submit_s: float
    recorded_s: float
    replayed_s: float


@dataclass(frozen=True)
class SizeFit:
    """Jobs of one size: how far the replay is off, as a share: 0.1 is 10 %, 3 is four times."""

    name: str
    jobs: int
    recorded_mean_s: float
    replayed_mean_s: float
    off_p50: float  # of single jobs
    off_p90: float


@dataclass(frozen=True)
class WaitFit:
    """All jobs. `off` is the figure to judge by, `misfit` the one to choose by; both are 0 for a perfect replay."""

    jobs: int
    off: float
    misfit: float
    recorded_mean_s: float
    replayed_mean_s: float
    sizes: list[SizeFit]


def wait_fit(waits: Sequence[Wait]) -> WaitFit:
    """How far replayed waits are from recorded ones; several replays of a job count once each.

    `off` is by what figures stand on: the largest of how far mean waits are apart, over all jobs and by size, and
    how far the distributions are, by size. `misfit` adds how far single jobs are apart: two policies may have the
    same distribution and differ in who waits.
    """
    if not waits:
        return WaitFit(0, 0.0, 0.0, 0.0, 0.0, [])
    groups = _by_size(waits)
    means = _weighted(groups, _apart_in_mean)
    shapes = _weighted(groups, _apart_in_shape)
    apart = max(_apart_in_mean(waits), means, shapes)
    single = fmean(_apart(wait.recorded_s, wait.replayed_s) for wait in waits)
    return WaitFit(
        len({wait.job_id for wait in waits}),
        as_share(apart),
        apart + single,
        fmean(wait.recorded_s for wait in waits),
        fmean(wait.replayed_s for wait in waits),
        [_size_fit(group) for group in groups],
    )


def as_share(apart: float) -> float:
    """By how much more a time is than another, whichever is longer: 0 if equal, 1 if twice as long."""
    return math.expm1(apart)


def _log(wait_s: float) -> float:
    return math.log1p(wait_s / MINUTE_S)


def _apart(one_s: float, other_s: float) -> float:
    return abs(_log(one_s) - _log(other_s))


def _apart_in_mean(waits: Sequence[Wait]) -> float:
    return _apart(fmean(wait.recorded_s for wait in waits), fmean(wait.replayed_s for wait in waits))


def _apart_in_shape(waits: Sequence[Wait]) -> float:
    """The mean distance of quantiles: the shortest wait against the shortest, up to the longest."""
    recorded = sorted(wait.recorded_s for wait in waits)
    replayed = sorted(wait.replayed_s for wait in waits)
    return fmean(_apart(one, other) for one, other in zip(recorded, replayed, strict=True))


def _weighted(groups: Sequence[Sequence[Wait]], apart: Callable[[Sequence[Wait]], float]) -> float:
    """The mean over sizes, by jobs."""
    return sum(apart(group) * len(group) for group in groups) / sum(map(len, groups))


def _by_size(waits: Sequence[Wait]) -> list[list[Wait]]:
    """Jobs by size class, smallest first, neighbours together until there are enough."""
    classes: dict[int, list[Wait]] = {}
    for wait in waits:
        classes.setdefault(size_class(wait.gpus), []).append(wait)
    result: list[list[Wait]] = []
    for number in sorted(classes):
        if result and (len(result[-1]) < FEWEST or len(classes[number]) < FEWEST):
            result[-1] += classes[number]
        else:
            result.append(list(classes[number]))
    return result


def _size_fit(group: Sequence[Wait]) -> SizeFit:
    off = sorted(as_share(_apart(wait.recorded_s, wait.replayed_s)) for wait in group)
    least, most = min(wait.gpus for wait in group), max(wait.gpus for wait in group)
    low, high = size_label(size_class(least)), size_label(size_class(most))
    name = low if low == high else f"{low.partition('–')[0]}–{high.rpartition('–')[2]}"
    return SizeFit(
        name,
        len({wait.job_id for wait in group}),
        fmean(wait.recorded_s for wait in group),
        fmean(wait.replayed_s for wait in group),
        _quantile(off, 0.5),
        _quantile(off, 0.9),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


WAITED_S = 60.0  # who waits less does not wait for GPUs


class RecordedJob(NamedTuple):
    """When a job was submitted, started and ended, in seconds, and what it asked for."""

    submit_s: float
    start_s: float
    end_s: float
    spec: JobSpec
    runs: int = 1  # of more than one, it is not known when it ran in between


@dataclass(frozen=True)
class Evidence:
    """Counts over all jobs with a recorded start."""

    jobs: int
    cluster_gpus: int
    peak_gpus: int  # in use at once
    waited: int  # jobs that waited for more than a minute
    waited_beside_free: int  # of these, halfway through their wait as many GPUs were free as they asked for
    without_limit: int
    partitions: dict[str, int]  # jobs by partition
    gpu_types: dict[str, int]


def evidence_of(jobs: Sequence[RecordedJob], cluster_gpus: int) -> Evidence:
    """What stands in the record."""
    times, in_use = _use(jobs)
    _, known_in_use = _use([job for job in jobs if job.runs == 1])
    waited = [job for job in jobs if job.start_s - job.submit_s > WAITED_S]
    beside_free = 0
    for job in waited:
        place = bisect_right(times, (job.submit_s + job.start_s) / 2) - 1
        free = cluster_gpus - (in_use[place] if place >= 0 else 0)
        beside_free += free >= job.spec.gpus
    return Evidence(
        len(jobs),
        cluster_gpus,
        max(known_in_use, default=0),
        len(waited),
        beside_free,
        sum(job.spec.limit_s is None for job in jobs),
        dict(Counter(job.spec.partition for job in jobs if job.spec.partition).most_common()),
        dict(Counter(job.spec.gpu_type for job in jobs if job.spec.gpu_type).most_common()),
    )


ROUNDED_S = 1.0  # records round times to seconds: an overlap no longer than that is none


def _use(jobs: Sequence[RecordedJob]) -> tuple[list[float], list[int]]:
    """Moments in order, and GPUs in use from each on; who ends makes room for who starts at the same moment."""
    changes: Counter[float] = Counter()
    for job in jobs:
        end_s = job.end_s - ROUNDED_S
        if end_s > job.start_s:
            changes[job.start_s] += job.spec.gpus
            changes[end_s] -= job.spec.gpus
    times = sorted(changes)
    return times, list(accumulate(changes[time_s] for time_s in times))
