"""summary.json as people read it, and who got what by queue and by type of GPU. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp
from typing import Any

from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import brief, span
from dally.traces.rows import counts_text


def summary_table(summary: Mapping[str, Any]) -> TextTable:
    """What came of a run, a line per figure."""
    tiers = ", ".join(f"{count:,} {tier}" for tier, count in summary["tier_starts"].items())
    finished = [
        ("makespan", f"{span(summary['makespan_s'])}  (at least {span(summary['makespan_bound_s'])})"),
        ("mean JCT", f"{span(summary['jct_mean_s'])}  (at least {span(summary['jct_bound_s'])})"),
        ("JCT p50 / p95 / p99", " / ".join(span(summary[f"jct_p{p}_s"]) for p in (50, 95, 99))),
        ("waiting, mean / p99", f"{span(summary['queue_mean_s'])} / {span(summary['queue_p99_s'])}"),
        *_fairness(summary),
    ]
    closest = span(summary["comm_floor_s"])
    communication = [("exposed communication", f"{span(summary['comm_s'])}  (alone, at the closest: {closest})")]
    factor = exp(summary["prediction_log_error"])
    off = f"median {summary['prediction_error_p50']:.0%}, on average a factor of {factor:.1f}"
    predictions = [("predicted durations are off by", off)] if summary["prediction_log_error"] else []
    rows = [
        ("policy", summary["policy"]),
        ("jobs finished", f"{summary['finished']:,} of {summary['jobs']:,}"),
        *([("too large, left out", f"{summary['skipped']:,}")] if summary["skipped"] else []),
        *([("rows left out", counts_text(summary["unused"]))] if summary["unused"] else []),
        *(finished if summary["finished"] else []),
        *(communication if summary["comm_s"] else []),
        ("GPUs held / computing", f"{summary['utilization']:.1%} / {summary['goodput']:.1%}"),
        (
            "preemptions, renewals, migrations",
            ", ".join(f"{summary[name]:,}" for name in ("preemptions", "renewals", "migrations")),
        ),
        ("placements by tier", tiers),
        *predictions,
        ("events", f"{summary['events']:,} in {summary['cpu_s']:.2f} s CPU, {summary['peak_rss_mb']:.0f} MB"),
    ]
    return plain_table(["", ""], rows, numbers_from=2)


def _fairness(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the worst-off user fared, where jobs have users."""
    if "user_slowdown_max" not in summary:
        return []
    worst = f"{summary['user_slowdown_max']:.2f} ({summary['user_slowdown_worst']})"
    return [("slowdown of the worst user", worst)]


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
        times = [brief(queue[key], in_table=True) if queue["finished"] else "-" for key in FIGURES]
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
