"""Many logs, each looked at so often, and no more of them in a second than a set rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final, Protocol

from dally.progress.line_parser import parse_line
from dally.progress.line_progress import LineProgress
from dally.progress.log_tail import LogTail, Parser

EVERY_S: Final = 5.0  # between two looks at a log
MOST_PER_S: Final = 250.0  # looks at all logs


class Tail(Protocol):
    """The end of a log that grows."""

    path: str

    def look(self) -> list[LineProgress]:
        """What lines that were added say of progress, in their order."""


class ReadableTail(Tail, Protocol):
    """One that people read, too."""

    def last_lines(self) -> list[str]:
        """Its end, whatever was read of it before."""


class LogReader:
    """Logs by key, as the daemon's jobs have them. Ask it now and then; it does what is due, and no more."""

    def __init__(
        self, clock: Callable[[], float], every_s: float = EVERY_S, most_per_s: float = MOST_PER_S
    ) -> None:
        self._clock = clock
        self._every_s = every_s
        self.most_per_s = most_per_s
        self._tails: dict[str, Tail] = {}
        self._due: list[tuple[float, str]] = []
        self._allowed = 0.0  # looks
        self._since_s = clock()

    @property
    def follows_any(self) -> bool:
        """Whether there is a log to look at."""
        return bool(self._tails)

    def follow(self, key: str, path: str, owner: int | None = None, parse: Parser = parse_line) -> None:
        """Read that file from now on, unless it is read under that key already."""
        self.follow_tail(key, path, lambda: LogTail(path, owner, parse))

    def follow_tail(self, key: str, path: str, make: Callable[[], Tail]) -> None:
        """Read that log, wherever it is, from now on, unless it is read under that key already."""
        tail = self._tails.get(key)
        if tail is None or tail.path != path:
            if tail is None:
                heappush(self._due, (self._clock(), key))
            self._tails[key] = make()

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all other logs."""
        keys = set(keys)
        for key in [key for key in self._tails if key not in keys]:
            del self._tails[key]

    def look(self) -> dict[str, list[LineProgress]]:
        """What the logs that are due say that is new, by key."""
        now = self._clock()
        self._allowed = min(self.most_per_s, self._allowed + (now - self._since_s) * self.most_per_s)
        self._since_s = now
        result: dict[str, list[LineProgress]] = {}
        while self._due and self._due[0][0] <= now and self._allowed >= 1.0:
            _, key = heappop(self._due)
            tail = self._tails.get(key)
            if tail is None:
                continue
            self._allowed -= 1.0
            heappush(self._due, (now + self._every_s, key))
            rows = tail.look()
            if rows:
                result[key] = rows
        return result
