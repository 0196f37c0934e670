"""How often a client may ask."""

from __future__ import annotations

import time
from typing import Final

BURST_S: Final = 2.0  # of its rate a client may save up
MOST_CLIENTS: Final = 10_000  # that are remembered


class Rate:
    """So many requests a second for each client, and a few at once."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * BURST_S)
        self._left: dict[str, tuple[float, float]] = {}  # requests left, and as of when

    def take(self, client: str) -> float:
        """0: it may ask now; else the seconds after which it may."""
        now = time.monotonic()
        left, since = self._left.get(client, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_s)
        if left < 1.0:
            self._left[client] = (left, now)
            return (1.0 - left) / self._per_s
        if len(self._left) >= MOST_CLIENTS and client not in self._left:
            self._forget(now)
        self._left[client] = (left - 1.0, now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Those who have not asked for a while, or everybody if all have."""
        recent = {name: kept for name, kept in self._left.items() if now - kept[1] < BURST_S}
        self._left = recent if len(recent) < MOST_CLIENTS else {}
