"""Writing traces, in every format that can hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final, NamedTuple

from dally.errors import InputError, unknown
from dally.job_spec import JobSpec
from dally.traces.readers import csv_trace, helios, philly, sacct, swf, tiresias
from dally.traces.reading import History
from dally.traces.rows import TraceRow
from dally.traces.table import LONGEST_LINE

_OF_SPEC: Final = attrgetter(*(field.name for field in fields(JobSpec)))  # astuple copies them, which takes long
LONGEST_TEXTS: Final = LONGEST_LINE // 2  # of one job: what is written must be readable, quotes and all
EPOCH_S: Final = 1577836800.0  # 2020-01-01: the date of second 0 where none is known


class Writer(NamedTuple):
    """How a format is written, and what of a job beyond id, submission, GPUs and duration it can hold."""

    pieces: Callable[[History], Iterable[str]]
    optional_fields: tuple[str, ...]
    whole_seconds: bool


def _epoch_s(history: History) -> float:
    return EPOCH_S if history.epoch_s is None else history.epoch_s


FIELDS: Final = ("model", "user", "priority", "name", "account", "partition", "qos", "queue")  # not in all formats
WRITERS: Final[dict[str, Writer]] = {
    "csv": Writer(lambda trace: csv_trace.pieces(trace.rows, trace.length), FIELDS, False),
    "tiresias": Writer(lambda trace: tiresias.pieces(trace.rows), ("model",), False),
    "swf": Writer(
        lambda trace: swf.pieces(trace.rows, trace.epoch_s), ("user", "name", "partition", "queue"), True
    ),
    "helios": Writer(lambda trace: helios.pieces(trace.rows, _epoch_s(trace)), ("user", "queue"), True),
    "philly": Writer(lambda trace: philly.pieces(trace.rows, _epoch_s(trace)), ("user", "queue"), True),
    "sacct": Writer(
        lambda trace: sacct.pieces(trace.rows, _epoch_s(trace)),
        ("user", "name", "account", "partition", "qos"),
        True,
    ),
}


def format_of(name: str) -> str:
    """The format that a file's name suggests: .swf, .json, else csv."""
    plain = name.removesuffix(".gz")
    return "swf" if plain.endswith(".swf") else "philly" if plain.endswith(".json") else "csv"


def text_of(history: History, name: str) -> Iterable[str]:
    """The text of the trace in that format, in pieces; an InputError if it cannot be put into it."""
    if name not in WRITERS:
        raise unknown("format to write", name, WRITERS)
    if history.length != "duration_s" and name != "csv":
        raise InputError(f"the trace states {history.length} instead of durations, which only csv can hold")
    for row in history.rows:
        size = sum(len(text) for text in (*row, *_OF_SPEC(row.spec)) if isinstance(text, str))
        if size > LONGEST_TEXTS:
            raise InputError(f"job {row.job_id[:40]!r}: {size:,} characters in its id, user and so on: too many")
    return WRITERS[name].pieces(history)


def losses(history: History, name: str) -> list[str]:
    """What the format cannot hold, as sentences."""
    writer = WRITERS[name]
    dropped = [
        field
        for field in FIELDS
        if field not in writer.optional_fields and any(getattr(row.spec, field) for row in history.rows)
    ]
    result = [f"{name} cannot hold {' or '.join(dropped)}: left out"] if dropped else []
    rounded = sum(not _is_whole(row) for row in history.rows) if writer.whole_seconds else 0
    if rounded:
        result.append(f"{name} counts whole seconds: {rounded:,} jobs were rounded")
    if name == "swf" and (renamed := _renamed(history.rows)):
        result.append(f"swf knows numbers only: {' and '.join(renamed)} were numbered from 1")
    return result


def _is_whole(row: TraceRow) -> bool:
    return row.submit_s == int(row.submit_s) and row.stated == int(row.stated)


def _renamed(rows: Sequence[TraceRow]) -> list[str]:
    """Which of ids, users, names and so on are not all numbers."""
    texts = {"job ids": [row.job_id for row in rows]}
    texts |= {f"{field}s": [getattr(row.spec, field) for row in rows] for field in swf.NUMBERED}
    return [token for token, result in texts.items() if not all(text.isdigit() for text in result if text)]
