"""What a record itself tells about the cluster it came from: why a replay may be far off."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from dally.job_spec import JobSpec

WAITED_S = 60.0  # who waits less does not wait for GPUs


class RecordedJob(NamedTuple):
    """When a job was submitted, started and ended, in seconds, and what it asked for."""

    submit_s: float
    start_s: float
    end_s: float
    spec: JobSpec


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
    waited = [job for job in jobs if job.start_s - job.submit_s > WAITED_S]
    beside_free = 0
    for job in waited:
        place = bisect_right(times, (job.submit_s + job.start_s) / 2) - 1
        free = cluster_gpus - (in_use[place] if place >= 0 else 0)
        beside_free += free >= job.spec.gpus
    return Evidence(
        len(jobs),
        cluster_gpus,
        max(in_use, default=0),
        len(waited),
        beside_free,
        sum(job.spec.limit_s is None for job in jobs),
        dict(Counter(job.spec.partition for job in jobs if job.spec.partition).most_common()),
        dict(Counter(job.spec.gpu_type for job in jobs if job.spec.gpu_type).most_common()),
    )


def _use(jobs: Sequence[RecordedJob]) -> tuple[list[float], list[int]]:
    """Moments in order, and GPUs in use from each on; who ends makes room for who starts at the same moment."""
    changes: Counter[float] = Counter()
    for job in jobs:
        if job.end_s > job.start_s:
            changes[job.start_s] += job.spec.gpus
            changes[job.end_s] -= job.spec.gpus
    times = sorted(changes)
    return times, list(accumulate(changes[time_s] for time_s in times))
