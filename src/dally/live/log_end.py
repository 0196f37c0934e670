"""The end of what a job printed, for people: a bounded piece, and nobody waits long for it."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Final

from dally.live.backends.base import ProgressSource
from dally.progress.line_parser import parse_line
from dally.progress.line_text import overwritten
from dally.progress.log_tail import last_lines

WITHIN_S: Final = 2.0  # a file server that does not answer must hold up neither a cycle nor a page
AT_ONCE: Final = 8  # logs that are waited for, those included that never answer
LONGEST: Final = 2000  # characters of a line

_free = threading.BoundedSemaphore(AT_ONCE)


def read_end(source: ProgressSource, within_s: float = WITHIN_S) -> list[str] | None:
    """The last lines of a job's log as they are in it; None: no answer in time."""
    if not _free.acquire(blocking=False):
        return None
    lines: list[str] = []
    reading = threading.Thread(target=_read, args=(source, lines), name="dally-log-end", daemon=True)
    reading.start()
    reading.join(within_s)
    return None if reading.is_alive() else lines


def _read(source: ProgressSource, lines: list[str]) -> None:
    try:
        if source.tail is None:
            lines += last_lines(source.log, source.owner)
        else:
            lines += source.tail(parse_line).last_lines()
    finally:
        _free.release()


def printed(lines: list[str], most: int) -> list[str]:
    """The last lines as a terminal would show them: no colours, nothing that was overwritten."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return ["".join(islice(next(overwritten(line), ""), LONGEST)).rstrip() for line in lines[-most:]]
