"""The workloads published with the paper's simulator: the plain csv, with `ideal_jct_s` as seconds of compute."""

from __future__ import annotations

from collections.abc import Sequence

from dally.traces import csv_trace
from dally.traces.csv_trace import header_names

rows = csv_trace.rows


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the header has the paper's columns."""
    return {"job_id", "iterations", "time_per_iteration_s", "ideal_jct_s"} <= header_names(lines)
