"""Jobs that wait or run as the record ends: in a replay they stand before others and hold GPUs, as they did."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from dally.traces import History
from dally.traces.readers.sacct import PENDING, RUNNING
from dally.traces.rows import TraceRow


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
    """How long a job is likely to be: the mean of those that lasted longer than it has run so far."""

    def __init__(self, rows: Sequence[TraceRow]) -> None:
        self._alike: dict[tuple[str, int], list[float]] = {}
        for row in rows:
            for key in _classes(row):
                self._alike.setdefault(key, []).append(row.stated)

    def of(self, row: TraceRow) -> float:
        """Seconds: by its user and size, else its size, else all; no longer than its time limit."""
        so_far_s = max(row.stated, 1.0)
        for key in _classes(row):
            longer = [length_s for length_s in self._alike.get(key, []) if length_s > so_far_s]
            if longer:
                length_s = fmean(longer)
                return max(so_far_s, min(length_s, row.spec.limit_s or length_s))
        return 2.0 * so_far_s


def _classes(row: TraceRow) -> tuple[tuple[str, int], ...]:
    """The narrowest first."""
    return (row.spec.user, row.spec.gpus), ("", row.spec.gpus), ("", 0)
