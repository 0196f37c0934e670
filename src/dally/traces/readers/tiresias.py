"""Tiresias: the plain csv under other names, `num_gpu, submit_time, duration, model_name`; seconds.

Source: SymbioticLab/Tiresias on GitHub.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dally.traces.readers import csv_trace
from dally.traces.readers.csv_trace import header_names, plain
from dally.traces.rows import TraceRow
from dally.traces.table import csv_lines

COLUMNS: Final = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")

rows = csv_trace.rows


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the header has Tiresias' columns."""
    return {"job_id", "num_gpu", "submit_time", "duration"} <= header_names(lines)


def pieces(rows: Sequence[TraceRow]) -> Iterator[str]:
    """The text of the csv. Iterations are not known, and the interval is that to the job before."""
    yield from csv_lines([COLUMNS])
    before = [*rows[:1], *rows]
    yield from csv_lines(
        [
            row.job_id, row.spec.gpus, plain(row.submit_s), "", row.spec.model, plain(row.stated),
            plain(row.submit_s - earlier.submit_s),
        ]
        for earlier, row in zip(before, rows, strict=False)
    )  # fmt: skip
