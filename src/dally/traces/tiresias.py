"""Tiresias: the plain csv under other names, `num_gpu, submit_time, duration, model_name`; seconds.

Source: SymbioticLab/Tiresias on GitHub.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Final

from dally.traces import csv_trace
from dally.traces.csv_trace import header_names, plain
from dally.traces.rows import Row

COLUMNS: Final = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")

rows = csv_trace.rows


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the header has Tiresias' columns."""
    return {"job_id", "num_gpu", "submit_time", "duration"} <= header_names(lines)


def pieces(rows: Sequence[Row]) -> Iterator[str]:
    """The text of the csv. Iterations are not known, and the interval is that to the job before."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(COLUMNS)
    before_s = rows[0].submit_s if rows else 0.0
    for row in rows:
        interval_s = row.submit_s - before_s
        before_s = row.submit_s
        writer.writerow([
            row.job_id, row.gpus, plain(row.submit_s), "", row.model, plain(row.duration_s), plain(interval_s),
        ])  # fmt: skip
        yield line.getvalue()
        line.seek(0)
        line.truncate()
