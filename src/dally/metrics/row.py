"""One run as one row of a table: its summary, flat, and the mean completion time by size of job."""

from __future__ import annotations

from typing import Any

from dally.metrics.simulated import Simulated
from dally.metrics.summary import mean
from dally.model import FINISHED

Row = dict[str, Any]
SIZES = {"jct_1_gpu_s": (1, 1), "jct_2_to_8_gpus_s": (2, 8), "jct_over_8_gpus_s": (9, 1 << 60)}
NOT_IN_ROWS = ("tier_starts", "queues", "rho", "gpu_types", "unused", "notes", "wall_s", "peak_rss_mb", "compiled")
BY_QUEUE = ("queue_mean_s", "jct_mean_s", "gpu_h")  # figures that rows hold for every queue


def row_of(record: Simulated) -> Row:
    """The summary with a column per tier for `tier_starts`. No job of a size finished: None for it."""
    summary = record.summary
    row: Row = {name: value for name, value in summary.items() if name not in NOT_IN_ROWS}
    row["unused"] = sum(record.unused.values())
    for name, (least, most) in SIZES.items():
        jct = [
            job.finish_s - job.submit_s
            for job in record.outcomes
            if job.status == FINISHED and least <= int(job.gpus) <= most
        ]
        row[name] = mean(jct) if jct else None
    for queue, figures in summary.get("queues", {}).items():
        row |= {by_queue(name, queue): figures[name] if figures["finished"] else None for name in BY_QUEUE}
    if summary.get("rho"):
        row["rho_max"] = summary["rho"]["max"]
    return row | {f"starts_{tier}": count for tier, count in summary["tier_starts"].items()}


def by_queue(figure: str, queue: str) -> str:
    """The column of a figure of one queue."""
    return f"{figure}[{queue}]"
