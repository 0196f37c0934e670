"""Lemons of a live cluster: machines that went down far more often than the others, of the last months."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dally.health.lemons import lemons
from dally.live.backends.base import DOWN

if TYPE_CHECKING:
    from dally.live.store import Store

FACT: Final = "machine_failures"  # of the store: pairs of a moment and a machine
DAYS: Final = 90
DAY_S: Final = 86400.0
MOST_ROWS: Final = 20_000


class LemonList:
    """Counts what went down between two looks; one that is drained, and then off, did not fail."""

    def __init__(self, store: Store) -> None:
        self.failures: dict[str, int] = {}  # in the last months, of lemons alone
        self._store = store
        self._rows: list[list[float | str]] | None = None  # None: not read yet
        self._states: dict[str, str] = {}

    def look(self, states: Mapping[str, str], now: float) -> None:
        """Take note of the states of all machines; StoreError if the store cannot be read or written."""
        is_first = self._rows is None
        rows = self._rows if self._rows is not None else list(self._store.fact(FACT) or [])
        before, self._states = self._states, dict(states)
        down = [name for name, state in states.items() if state == DOWN and before.get(name) == "up"]
        if down:
            rows += [[now, name] for name in down]
            rows = [row for row in rows if float(row[0]) >= now - DAYS * DAY_S][-MOST_ROWS:]
            with self._store.transaction() as connection:
                self._store.keep(connection, FACT, rows)
        self._rows = rows
        if down or is_first:
            times = Counter(str(name) for _, name in rows)
            counts = {name: times[name] for name in states}
            self.failures = {name: counts[name] for name in lemons(counts)}
