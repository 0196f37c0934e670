"""A trace in a DataFrame, polars' or pandas': the columns of the plain csv, checked by the same reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dally.errors import at
from dally.traces.readers.csv_trace import rows_below
from dally.traces.rows import Reading, no_jobs
from dally.traces.table import csv_lines

NAME = Path("DataFrame")  # what errors call it; behind it the row, counted from 0
MISSING = ("NAType", "NaTType")  # pandas' own ways to say that a value is missing


def is_frame(what: object) -> bool:
    """Whether it is a DataFrame, told without importing the library that it is of."""
    return type(what).__name__ == "DataFrame"


def frame_csv(frame: Any, strict: bool = False) -> str:
    """The text of the plain csv that holds the frame's jobs; an InputError names the column and the row."""
    header = [str(name) for name in frame.columns]
    if len({*header}) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise at(NAME, None, twice, "stands for several columns; names must differ")
    columns = [frame[name].to_list() for name in frame.columns]
    rows = [[_text(value) for value in row] for row in zip(*columns, strict=True)]
    _check(header, rows, strict)
    return "".join(csv_lines([header, *rows]))


def _text(value: Any) -> str:
    """A cell as the csv has it; empty if it is missing."""
    if value is None or type(value).__name__ in MISSING or value != value:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _check(header: list[str], rows: Iterable[list[str]], strict: bool) -> None:
    """InputError if a column is missing, a value is none, or two jobs have one id."""
    seen: dict[str, int] = {}
    reading = Reading(NAME, strict)
    for job in rows_below(reading, None, header, _numbered(rows)):
        if job.job_id in seen:
            raise at(NAME, job.line, "job_id", f"{job.job_id!r} stands already in row {seen[job.job_id]}")
        seen[job.job_id] = job.line
    if not seen:
        raise no_jobs(reading)


def _numbered(rows: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Rows with their numbers; copies, as the reader adds to them."""
    for number, row in enumerate(rows):
        if any("\0" in text for text in row):
            raise at(NAME, number, None, "holds a NUL character")
        yield number, [*row]
