"""Who got what by queue and by type of GPU, for people. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import brief

HEADS = (
    "queue", "jobs", "mean wait", "mean JCT", "GPU-hours", "due", "borrowed", "lent", "stopped for others",
    "stopped for it",
)  # fmt: skip
FIGURES = {"queue_mean_s": "mean wait", "jct_mean_s": "mean JCT"}


def sharing_lines(summary: Mapping[str, Any]) -> Iterator[str | TextTable]:
    """What a run has to say of its queues and types of GPU; nothing where it has none."""
    if len(summary.get("queues", {})) > 1:
        yield "By queue; in brackets the GPU-hours that stopped jobs had run"
        yield queues_table(summary)
        yield from fairness_lines(summary)
    if summary.get("gpu_types"):
        yield "By type of GPU"
        yield types_table(summary)


def queues_table(summary: Mapping[str, Any]) -> TextTable:
    """A line per queue."""
    rows = []
    for name, queue in summary["queues"].items():
        times = [_time(queue[key]) if queue["finished"] else "-" for key in FIGURES]
        hours = [f"{queue[key]:,.1f}" for key in ("gpu_h", "entitled_gpu_h", "borrowed_gpu_h", "lent_gpu_h")]
        stops = [_stops(queue, key) for key in ("stopped", "reclaimed")]
        rows.append([name, f"{queue['jobs']:,}", *times, *hours, *stops])
    return plain_table(list(HEADS), rows)


def _stops(queue: Mapping[str, Any], key: str) -> str:
    """How many jobs, and the GPU-hours that they had run for."""
    return f"{queue[key]:,} ({queue[f'{key}_gpu_h']:,.1f})" if queue[key] else "-"


def fairness_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """How even shares were, and how users fared against a share of their own."""
    if summary["jain"] is not None:
        yield f"Jain index over queues that waited side by side, by weight: {summary['jain']:.3f}"
    rho = summary["rho"]
    if rho and rho["users"] > 1:
        yield (
            f"Finish-time fairness of {rho['users']:,} users: median {rho['p50']:.2f}, "
            f"at most {rho['max']:.2f} ({rho['worst']})"
        )


def types_table(summary: Mapping[str, Any]) -> TextTable:
    """A line per type of GPU."""
    rows = [
        [name or "(not stated)", f"{use['gpus']:,}", f"{use['gpu_h']:,.1f}", f"{use['utilization']:.1%}"]
        for name, use in summary["gpu_types"].items()
    ]
    return plain_table(["GPU type", "GPUs", "GPU-hours held", "held"], rows)


def _time(seconds: float) -> str:
    return brief(seconds, in_table=True)
