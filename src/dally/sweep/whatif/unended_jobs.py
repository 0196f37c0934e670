"""Jobs that wait or run as the record ends: in a replay they stand before others and hold GPUs, as they did."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from dally.traces import History
from dally.traces.readers.sacct import PENDING, RUNNING
from dally.traces.rows import TraceRow

FEWEST_LIMITS = 20  # jobs that state one, to compare them with lengths
CLEARLY = 0.9  # of the spread of lengths: equal limits say nothing


def with_running(history: History) -> History:
    """The record with jobs that ran at its end, each as long as those like it that lasted longer."""
    return _with(history, [row for row in history.unended if row.status == RUNNING])


def with_waiting(history: History) -> History:
    """The record with jobs that waited at its end.

    A job counts if one of its partition and type of GPU, at least as large, has run: another may wait for ever.
    """
    largest: dict[tuple[str, str], int] = {}
    for row in history.rows:
        for key in _places(row):
            largest[key] = max(largest.get(key, 0), row.spec.gpus)
    waiting = [row for row in history.unended if row.status == PENDING]
    return _with(history, [row for row in waiting if row.spec.gpus <= largest.get(_place(row), 0)])


def _with(history: History, jobs: Sequence[TraceRow]) -> History:
    if not jobs or history.length != "duration_s":
        return history
    lengths = _Lengths(history.rows)
    added = [row._replace(stated=lengths.of(row)) for row in jobs]
    return history._replace(rows=sorted([*history.rows, *added], key=lambda row: row.submit_s))


def still_waiting(history: History) -> int:
    """Replayed jobs that waited at the end of the record."""
    return sum(row.status == PENDING for row in history.rows)


def still_running(history: History) -> int:
    """Replayed jobs that ran at its end."""
    return sum(row.status == RUNNING for row in history.rows)


def _place(row: TraceRow) -> tuple[str, str]:
    return row.spec.partition, row.spec.gpu_type


def _places(row: TraceRow) -> set[tuple[str, str]]:
    """Where a job like this one could run: also one that asks for no type."""
    return {_place(row), (row.spec.partition, "")}


class _Lengths:
    """How long a job is likely to be: the mean of those that lasted longer than it has run so far.

    Where time limits tell lengths, those of other jobs are scaled by the limits: a job of 100 h among short tests
    of its user and size is not as long as they are.
    """

    def __init__(self, rows: Sequence[TraceRow]) -> None:
        self._alike = _by_class(rows)
        self._limited = _by_class([row for row in rows if row.spec.limit_s]) if _limits_predict(rows) else {}

    def of(self, row: TraceRow) -> float:
        """Seconds: by its user and size, else its size, else all; no longer than its time limit."""
        so_far_s = max(row.stated, 1.0)
        most_s = row.spec.limit_s or math.inf
        for lengths in self._lengths_alike(row):
            longer = [max(so_far_s, min(length_s, most_s)) for length_s in lengths if length_s > so_far_s]
            if longer:
                return fmean(longer)
        return 2.0 * so_far_s

    def _lengths_alike(self, row: TraceRow) -> Iterator[list[float]]:
        """Of jobs like it, the likeliest to be of its length first."""
        if row.spec.limit_s:
            for key in _classes(row):
                yield [_scaled(one, row.spec.limit_s) for one in self._limited.get(key, [])]
        for key in _classes(row):
            yield [one.stated for one in self._alike.get(key, [])]


def _limits_predict(rows: Sequence[TraceRow]) -> bool:
    """Whether shares of time limits are more alike than lengths, as with users who state what each job needs."""
    limited = [row for row in rows if row.spec.limit_s and row.stated > 0.0]
    if len(limited) < FEWEST_LIMITS:
        return False
    lengths = [math.log(row.stated) for row in limited]
    shares = [math.log(_scaled(row, 1.0)) for row in limited]
    return stdev(shares) < CLEARLY * stdev(lengths)


def _scaled(row: TraceRow, limit_s: float) -> float:
    """What it took, as if that had been its limit."""
    assert row.spec.limit_s
    return row.stated * limit_s / row.spec.limit_s


def _by_class(rows: Sequence[TraceRow]) -> dict[tuple[str, int], list[TraceRow]]:
    result: dict[tuple[str, int], list[TraceRow]] = {}
    for row in rows:
        for key in _classes(row):
            result.setdefault(key, []).append(row)
    return result


def _classes(row: TraceRow) -> tuple[tuple[str, int], ...]:
    """The narrowest first."""
    return (row.spec.user, row.spec.gpus), ("", row.spec.gpus), ("", 0)
