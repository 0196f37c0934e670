"""The text of jobs.csv: what became of every job of a run."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dally.metrics.usage import queue_of, type_use
from dally.model import FINISHED, STATUS_NAMES, Job
from dally.sizes import held_gpu_s

if TYPE_CHECKING:
    from dally.metrics.simulated import Simulated

JOB_COLUMNS = (
    "job_id", "submit_s", "start_s", "finish_s", "gpus", "model", "jct_s", "queue_s", "run_s",
    "compute_s", "comm_s", "preemptions", "tier", "status", "slowdown",
)  # fmt: skip
USER = "user"  # a column of jobs.csv where the trace says whose jobs they are,
SIZES = (
    "sizes",
    "resizes",
    "gpu_s",
)  # of elastic jobs, and how often they changed
SHARED = ("queue", "gpu_type", "account")  # and behind it, in runs with queues or types of GPU
ROWS_PER_PIECE = 10_000


def seconds(value: float) -> str:
    """A time to the microsecond, without trailing zeros; empty for a time that never came."""
    if value < 0.0:
        return ""
    if 0.0 < value < 1e15 and int(value) == value:
        return str(int(value))  # the same text in a third of the time, and most times are whole seconds
    return f"{value:.6f}".rstrip("0").rstrip(".")


def jobs_csv(record: Simulated) -> Iterator[str]:
    """The text of jobs.csv, piece by piece."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    more = _more_columns(record)
    writer.writerow((*JOB_COLUMNS, *more))
    now, tiers, cells = record.end_s, record.tiers, list(more.values())
    for place, job in enumerate(record.outcomes, start=1):
        row = _job_row(job, now, tiers)
        for cell in cells:
            row.append(cell(job))
        writer.writerow(row)
        if place % ROWS_PER_PIECE == 0:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _more_columns(record: Simulated) -> dict[str, Callable[[Job], str]]:
    """Columns that not every run has: whose job it is, its queue, and the type of GPU that it ran on last."""
    result: dict[str, Callable[[Job], str]] = {}
    if any(job.user for job in record.outcomes):
        result[USER] = lambda job: job.user
    if any(len(job.sizes) > 0 for job in record.outcomes):
        now = record.end_s
        of_sizes: tuple[Callable[[Job], str], ...] = (
            lambda job: _sizes(job), lambda job: str(int(job.resizes)), lambda job: seconds(held_gpu_s(job, now)),
        )  # fmt: skip
        result |= dict(zip(SIZES, of_sizes, strict=True))
    if record.sharing is not None:
        tree, last = record.sharing.tree, type_use(record).last
        cells: tuple[Callable[[Job], str], ...] = (
            lambda job: queue_of(tree, job), lambda job: last.get(int(job.index), ""), lambda job: job.account,
        )  # fmt: skip
        result |= dict(zip(SHARED, cells, strict=True))
    return result


def _sizes(job: Job) -> str:
    """The least and the most GPUs of an elastic job."""
    return f"{job.sizes[0]}:{job.sizes[-1]}" if len(job.sizes) > 0 else ""


def _job_row(job: Job, now: float, tiers: list[str]) -> list[object]:
    run_s = job.run_s(now)
    done = job.status == FINISHED
    end_s = job.finish_s if done else max(now, job.submit_s)
    return [
        job.job_id,
        seconds(job.submit_s),
        seconds(job.start_s),
        seconds(job.finish_s),
        int(job.requested),
        job.model,
        seconds(job.finish_s - job.submit_s) if done else "",
        seconds(max(0.0, end_s - job.submit_s - run_s)),
        seconds(run_s),
        seconds(job.compute_s),
        seconds(job.comm_s),
        int(job.preemptions),
        tiers[job.tier] if job.tier >= 0 else "",
        STATUS_NAMES[job.status],
        _slowdown(job),
    ]


def _slowdown(job: Job) -> str:
    """Time its work has taken, restarts aside, against the same work at the closest placement alone."""
    return f"{(job.compute_s + job.comm_s) / job.work_s:.4f}" if job.work_s > 0.0 else ""
