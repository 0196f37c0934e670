"""summary.json as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import span
from dally.traces.rows import counts_text


def summary_table(summary: Mapping[str, Any]) -> TextTable:
    """What came of a run, a line per figure."""
    tiers = ", ".join(f"{count:,} {tier}" for tier, count in summary["tier_starts"].items())
    finished = [
        ("makespan", f"{span(summary['makespan_s'])}  (at least {span(summary['makespan_bound_s'])})"),
        ("mean JCT", f"{span(summary['jct_mean_s'])}  (at least {span(summary['jct_bound_s'])})"),
        ("JCT p50 / p95 / p99", " / ".join(span(summary[f"jct_p{p}_s"]) for p in (50, 95, 99))),
        ("waiting, mean / p99", f"{span(summary['queue_mean_s'])} / {span(summary['queue_p99_s'])}"),
    ]
    communication = [
        ("exposed communication", f"{span(summary['comm_s'])}  (at least {span(summary['comm_floor_s'])})")
    ]
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
