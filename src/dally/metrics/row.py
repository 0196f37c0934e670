"""One run as one row of a table: its summary, flat, and the mean completion time by size of job."""

from __future__ import annotations

from typing import Any

from dally.metrics.simulated import Simulated
from dally.metrics.summary import mean
from dally.model import FINISHED

Row = dict[str, Any]
SIZES = {"jct_1_gpu_s": (1, 1), "jct_2_to_8_gpus_s": (2, 8), "jct_over_8_gpus_s": (9, 1 << 60)}
NOT_IN_ROWS = ("tier_starts", "unused", "notes", "wall_s", "peak_rss_mb", "compiled")


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
    return row | {f"starts_{tier}": count for tier, count in summary["tier_starts"].items()}
