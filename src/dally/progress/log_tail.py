"""Growing logs, read in slices: what came since the last look, of regular files of their owner, and never much."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dally.progress.line_parser import parse_line
from dally.progress.line_progress import LineProgress

SLICE_BYTES: Final = 16384  # read at a look, at most: of a log that grew by more, its end
HEAD_LINES: Final = 200  # of the first slice, which may hold totals
TAIL_LINES: Final = 10  # of a later one, parsed from its end until one holds a step
PARTIAL_BYTES: Final = 4096  # of a line that has no end yet
Parser = Callable[[str], LineProgress | None]


class LogTail:
    """One log. It may be truncated, replaced or not be there; then it is read from its beginning again."""

    __slots__ = ("_identity", "_offset", "_parse", "_partial", "owner", "path")

    def __init__(self, path: str, owner: int | None = None, parse: Parser = parse_line) -> None:
        """`owner`: the user to whom the file must belong; None: anybody."""
        self.path = path
        self.owner = owner
        self._parse = parse
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._partial = b""

    def look(self) -> list[LineProgress]:
        """What lines that were added say of progress, in their order; of many lines, what the latest say."""
        try:
            known = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return []
        if (known.st_dev, known.st_ino) == self._identity and known.st_size == self._offset:
            return []  # nothing new, for the price of one system call
        first, content = self._slice()
        return self._read(content, first)

    def _slice(self) -> tuple[bool, bytes]:
        """Whether it is the beginning of a log, and what was added to it, or the end of that."""
        try:
            number = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False, b""
        try:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or self.owner not in (None, status.st_uid):
                return False, b""
            identity = (status.st_dev, status.st_ino)
            first = identity != self._identity or status.st_size < self._offset
            if first:
                self._identity, self._offset, self._partial = identity, 0, b""
            if not first and status.st_size - self._offset > SLICE_BYTES:
                self._offset, self._partial = status.st_size - SLICE_BYTES, b""
            content = os.pread(number, SLICE_BYTES, self._offset)
            self._offset += len(content)
        except OSError:
            return False, b""
        finally:
            os.close(number)
        return first, content

    def _read(self, content: bytes, first: bool) -> list[LineProgress]:
        if not content:
            return []
        content = self._partial + content
        end = max(content.rfind(b"\n"), content.rfind(b"\r"))
        self._partial = content[end + 1 :][-PARTIAL_BYTES:]
        lines = [line for line in content[: end + 1].splitlines() if line.strip()]
        if first:
            parsed = (self._parse(line.decode("utf-8", "replace")) for line in lines[:HEAD_LINES])
            return [progress for progress in parsed if progress is not None]
        return list(latest_progress(lines, self._parse))[::-1]


def last_lines(path: str, owner: int | None = None) -> list[str]:
    """The whole lines at the end of a log, if it is its owner's regular file."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or owner not in (None, status.st_uid):
            return []
        content = os.pread(number, SLICE_BYTES, max(0, status.st_size - SLICE_BYTES))
    except OSError:
        return []
    finally:
        os.close(number)
    return whole_lines(content, status.st_size > len(content))


def whole_lines(content: bytes, is_cut: bool) -> list[str]:
    """The lines of the end of a log; the first of them is left out if its beginning was cut off."""
    lines = content.decode("utf-8", "replace").split("\n")
    return lines[1:] if is_cut and len(lines) > 1 else lines


def latest_progress(lines: Sequence[bytes], parse: Parser) -> Iterator[LineProgress]:
    """From the end back to a line that holds a step."""
    for line in lines[: -TAIL_LINES - 1 : -1]:
        progress = parse(line.decode("utf-8", "replace"))
        if progress is not None:
            yield progress
            if progress.step is not None:
                return
