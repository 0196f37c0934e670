"""Rows that this process has read, so that many runs of one trace parse it once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import InputError
from dally.traces.rows import Reading, TraceRow

MOST_ROWS: Final = 200_000  # rows of all traces together: some 100 MB


class Parsed(NamedTuple):
    """A trace's rows. What the reading counted is complete once all rows have been taken."""

    reading: Reading
    format: str
    rows: Iterable[TraceRow]


_CACHE: dict[tuple[object, ...], tuple[Parsed, int]] = {}  # and how many rows; the latest used stands last


def stamp(path: Path) -> tuple[str, int, int]:
    """What tells a file from what it was before: its full name, when it was written, and its size in bytes."""
    try:
        result = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return str(path.absolute()), result.st_mtime_ns, result.st_size


def find_cached(key: tuple[object, ...]) -> Parsed | None:
    """The trace that was kept under this key, or None."""
    if key not in _CACHE:
        return None
    _CACHE[key] = _CACHE.pop(key)
    return _CACHE[key][0]


def keep(key: tuple[object, ...], parsed: Parsed) -> Iterator[TraceRow]:
    """The rows as they are read; once all are, they are kept, unless that would be too many."""
    rows: list[TraceRow] = []
    count = 0
    for count, row in enumerate(parsed.rows, 1):
        if count <= MOST_ROWS:
            rows.append(row)
        elif rows:
            rows = []
        yield row
    if count <= MOST_ROWS:
        _CACHE[key] = (parsed._replace(rows=rows), count)
        while sum(size for _, size in _CACHE.values()) > MOST_ROWS:
            del _CACHE[next(iter(_CACHE))]
