"""One run as numbers: summary.json, and the same as a flat row of a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

from dally.metrics.bounds import jct_bound_s, makespan_bound_s
from dally.metrics.metric_list import SHORT_SLOWDOWN
from dally.metrics.tables import fragmentation_mean
from dally.model import FINISHED, MIGRATE, RESIZE, START, Job
from dally.perf.base import SpeedModel
from dally.sizes import comm_gpu_s, compute_gpu_s, held_gpu_s, overhead_gpu_s

if TYPE_CHECKING:
    from dally.metrics.simulated import Simulated

LEAST_S = 10.0  # a job that takes less alone counts as if it took this (bounded slowdown, Feitelson et al. 1997)
SHORT_S = 600.0  # a short job takes at most this alone


def summarize(record: Simulated) -> dict[str, Any]:
    """What can be said of a run from its jobs and its log. Means are over finished jobs."""
    jobs = record.outcomes
    now = record.end_s
    gpus = record.topology.total_gpus()
    done = [job for job in jobs if job.status == FINISHED]
    speed: SpeedModel = record.speed
    slowdowns = [least_slowdown(speed, job) for job in done]
    first_s = jobs[0].submit_s if jobs else 0.0
    jct = sorted([job.finish_s - job.submit_s for job in done])
    queued = sorted([max(0.0, job.finish_s - job.submit_s - job.held_s) for job in done])
    computed_gpu_s = sum([compute_gpu_s(job) for job in jobs])
    occupied_gpu_s = sum([held_gpu_s(job, now) for job in jobs])
    offered_gpu_s = gpus * (now - first_s)
    return {
        "jobs": len(jobs),
        "finished": len(done),
        "makespan_s": max([job.finish_s for job in done], default=first_s) - first_s,
        "jct_mean_s": mean(jct),
        "jct_p50_s": quantile(jct, 0.50),
        "jct_p95_s": quantile(jct, 0.95),
        "jct_p99_s": quantile(jct, 0.99),
        "queue_mean_s": mean(queued),
        "queue_p99_s": quantile(queued, 0.99),
        "comm_s": sum([job.comm_s for job in jobs]),
        "comm_gpu_s": sum([comm_gpu_s(job) for job in jobs]),
        "comm_floor_s": _comm_floors_s(record),
        "compute_gpu_s": computed_gpu_s,
        "utilization": occupied_gpu_s / offered_gpu_s if offered_gpu_s else 0.0,
        "goodput": computed_gpu_s / offered_gpu_s if offered_gpu_s else 0.0,
        "preemptions": sum([int(job.preemptions) for job in jobs]),
        "renewals": sum([int(job.renewals) for job in jobs]),
        "migrations": sum([int(job.migrations) for job in jobs]),
        **_resizes(jobs),
        "overhead_gpu_s": sum([overhead_gpu_s(job, now) for job in jobs]),
        "tier_starts": tier_starts(record),
        **prediction_errors(done),
        "fragmentation_mean": fragmentation_mean(record),
        "makespan_bound_s": makespan_bound_s(done, gpus, slowdowns),
        "jct_bound_s": jct_bound_s(done, gpus, slowdowns),
        "events": len(record.log),
    }


def _resizes(jobs: Sequence[Job]) -> dict[str, int]:
    """How often jobs changed their size, where any may."""
    elastic = [job for job in jobs if len(job.sizes) > 0]
    return {"elastic_jobs": len(elastic), "resizes": sum([int(job.resizes) for job in elastic])} if elastic else {}


def least_slowdown(speed: SpeedModel, job: Job) -> float:
    """How many times its `duration_s` the job needs at least; of elastic jobs, also for GPUs × duration.

    Theirs is looser: the size that takes least time and the one that takes fewest GPU-seconds may be two.
    """
    if len(job.sizes) == 0:
        return speed.least_slowdown(job)
    least = 1.0
    for gpus in job.sizes:
        least = min(least, min(1.0, float(gpus) / float(job.requested)) / speed.speedup(job, gpus))
    return least


def _comm_floors_s(record: Simulated) -> float:
    """The sum of all floors; 0 without asking job by job where places are equal."""
    if type(record.speed) is SpeedModel:
        return 0.0
    return sum(comm_floor_s(record, job) for job in record.outcomes)


def comm_floor_s(record: Simulated, job: Job) -> float:
    """Seconds of exposed communication that the work done so far takes at least, wherever the job is placed.

    Of work done, not of all its work: `comm_s` counts no more while a job is unfinished.
    """
    if job.size_account is not None:
        done_at_s = job.size_account.works_at_s(job)
        return sum([record.speed.comm_floor_at_s(job, gpus, done_at_s[gpus]) for gpus in done_at_s])
    done = job.work_s / job.duration_s if job.duration_s > 0.0 else 0.0
    return record.speed.comm_floor_s(job) * done


def tier_starts(record: Simulated) -> dict[str, int]:
    """Placements by tier name: starts, restarts and migrations."""
    log = record.log
    counts = [0] * len(record.tiers)
    for row in range(len(log)):
        kind = log.kinds[row]
        if kind in (START, MIGRATE, RESIZE):
            counts[log.tiers[row]] += 1
    return dict(zip(record.tiers, counts, strict=True))


def prediction_errors(done: Sequence[Job]) -> dict[str, Any]:
    """How far the predictions made at submission were off; durations below 1 s count as 1 s."""
    pairs = [(max(job.predicted_s, 1.0), max(job.duration_s, 1.0)) for job in done if job.predicted_s >= 0.0]
    return {
        "predicted": len(pairs),
        "prediction_error_p50": quantile(sorted([abs(predicted - real) / real for predicted, real in pairs]), 0.5),
        "prediction_log_error": mean([abs(log(predicted / real)) for predicted, real in pairs]),
    }


def mean(values: Sequence[float]) -> float:
    """The mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of the ordered values lies, interpolated; 0 of nothing."""
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def slowdown(speed: SpeedModel, job: Job) -> float:
    """A finished job's completion time ÷ its time alone at its closest placement; 1 or more."""
    alone_s = max(LEAST_S, job.duration_s * least_slowdown(speed, job))
    return max(1.0, (job.finish_s - job.submit_s) / alone_s)


def _short_slowdown_p99(record: Simulated) -> float | None:
    """The slowdown that one in a hundred short jobs exceeds; None without finished short jobs."""
    short = [job for job in record.outcomes if job.status == FINISHED and job.duration_s <= SHORT_S]
    return quantile(sorted([slowdown(record.speed, job) for job in short]), 0.99) if short else None


Row = dict[str, Any]
SIZES = {"jct_1_gpu_s": (1, 1), "jct_2_to_8_gpus_s": (2, 8), "jct_over_8_gpus_s": (9, 1 << 60)}
NOT_IN_ROWS = (
    "tier_starts", "queues", "rho", "user_slowdown_worst", "gpu_types", "unused", "notes", "wall_s", "peak_rss_mb",
    "compiled",
)  # fmt: skip
BY_QUEUE = ("queue_mean_s", "jct_mean_s", "gpu_h")  # figures that rows hold for every queue


def row_of(record: Simulated) -> Row:
    """The summary with a column per tier for `tier_starts`. No job of a size finished: None for it."""
    summary = record.summary
    row: Row = {name: value for name, value in summary.items() if name not in NOT_IN_ROWS}
    row["unused"] = sum(record.unused.values())
    row["notes"] = "; ".join(f"{count:,} jobs {what}" for what, count in record.notes.items())
    for name, (least, most) in SIZES.items():
        jct = [
            job.finish_s - job.submit_s
            for job in record.outcomes
            if job.status == FINISHED and least <= int(job.gpus) <= most
        ]
        row[name] = mean(jct) if jct else None
    row[SHORT_SLOWDOWN.key] = _short_slowdown_p99(record)
    for queue, figures in summary.get("queues", {}).items():
        row |= {by_queue(name, queue): figures[name] if figures["finished"] else None for name in BY_QUEUE}
    if summary.get("rho"):
        row["rho_max"] = summary["rho"]["max"]
    return row | {f"starts_{tier}": count for tier, count in summary["tier_starts"].items()}


def by_queue(figure: str, queue: str) -> str:
    """The column of a figure of one queue."""
    return f"{figure}[{queue}]"
