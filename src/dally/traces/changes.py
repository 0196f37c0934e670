"""Changing a trace: a window of it, another load, fewer jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from dally.errors import InputError
from dally.traces.reading import History, start_s
from dally.traces.rows import NOT_KNOWN, TraceRow


class JobFilter(NamedTuple):
    """Which jobs to keep; an empty list asks for nothing."""

    min_gpus: int = 0
    max_gpus: float = float("inf")
    min_duration_s: float = 0.0
    max_duration_s: float = float("inf")
    users: Collection[str] = ()
    statuses: Collection[str] = ()  # upper or lower case
    models: Collection[str] = ()
    gpu_types: Collection[str] = ()
    accounts: Collection[str] = ()
    queues: Collection[str] = ()


def filtered(history: History, conditions: JobFilter) -> History:
    """The jobs that meet the conditions, their times unchanged."""
    statuses = {status.lower() for status in conditions.statuses}
    remaining = [
        row
        for row in history.rows
        if conditions.min_gpus <= row.spec.gpus <= conditions.max_gpus
        and conditions.min_duration_s <= row.stated <= conditions.max_duration_s
        and (not conditions.users or row.spec.user in conditions.users)
        and (not statuses or row.status.lower() in statuses)
        and (not conditions.models or row.spec.model in conditions.models)
        and (not conditions.gpu_types or row.spec.gpu_type in conditions.gpu_types)
        and (not conditions.accounts or row.spec.account in conditions.accounts)
        and (not conditions.queues or row.spec.queue in conditions.queues)
    ]
    return history._replace(rows=remaining)


def window(history: History, from_s: float, to_s: float, warmup_s: float = 0.0) -> History:
    """The jobs from `warmup_s` before `from_s` up to `to_s`, on a clock that starts with the warm-up.

    A job that is running then is kept with what is left of it, a job that is waiting then with all of it;
    both are submitted at 0. Where waits are not known, jobs count as started when submitted.
    """
    if not from_s < to_s:
        raise InputError(f"--from {from_s:g} --to {to_s:g}: the window must end after it begins")
    _needs_durations(history, "window")
    begin_s = max(from_s - warmup_s, 0.0)
    rows = sorted(_within(history.rows, begin_s, to_s), key=lambda row: row.submit_s)
    epoch_s = None if history.epoch_s is None else history.epoch_s + begin_s
    return history._replace(rows=rows, epoch_s=epoch_s)


def _within(rows: Iterable[TraceRow], begin_s: float, to_s: float) -> Iterator[TraceRow]:
    for row in rows:
        start = start_s(row)
        left_s = start + row.stated - begin_s
        if begin_s <= row.submit_s < to_s:
            yield row._replace(submit_s=row.submit_s - begin_s)
        elif row.submit_s < begin_s and left_s > 0.0:
            running = start < begin_s
            yield row._replace(
                submit_s=0.0,
                wait_s=0.0 if running else start - begin_s,
                stated=left_s if running else row.stated,
            )


def gpu_s(rows: Iterable[TraceRow]) -> float:
    """GPU-seconds of work."""
    return sum(row.spec.gpus * row.stated for row in rows)


def arrival_span_s(rows: list[TraceRow]) -> float:
    """Seconds from the first submission to the last."""
    return rows[-1].submit_s - rows[0].submit_s if rows else 0.0


def load_of(history: History, gpus: int) -> float | None:
    """Work that arrives per second and GPU: 1 keeps the cluster just busy; None if all arrive at once."""
    span_s = arrival_span_s(history.rows)
    return gpu_s(history.rows) / (gpus * span_s) if span_s > 0.0 else None


def scaled(history: History, load: float, gpus: int) -> History:
    """The same jobs arriving faster or slower, so that they load that many GPUs so much."""
    if not 0.0 < load < float("inf"):
        raise InputError(f"--load {load:g}: must be more than 0")
    _needs_durations(history, "scale")
    now = load_of(history, gpus)
    if not now:
        raise InputError("all jobs of the trace arrive at once or none has work: arrivals cannot be stretched")
    first_s = history.rows[0].submit_s
    factor = now / load
    rows = [
        row._replace(submit_s=round(first_s + (row.submit_s - first_s) * factor, 3), wait_s=NOT_KNOWN)
        for row in history.rows
    ]
    return history._replace(rows=rows)


def _needs_durations(history: History, what: str) -> None:
    if history.length == "iterations":
        raise InputError(f"the trace states iterations instead of durations: {what} needs durations")
