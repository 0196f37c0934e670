"""What the API answers from: the daemon's board, the store, and pages that are kept as long as a board stands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Final

from pydantic import BaseModel

from dally.live.assembly import Service
from dally.live.board import Board
from dally.live.scheduler import Turn
from dally.web.metrics import Metrics

MOST_PAGES: Final = 500  # kept of one board
LATELY_S: Final = 30.0  # a turn within this means that all is well


class Site:
    """One daemon as the API sees it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.turned_s = -float("inf")  # when the latest turn came about, of the machine's clock
        self._pages: tuple[Board, dict[Hashable, bytes]] = (service.daemon.board, {})
        self.metrics = Metrics(service)
        self.one_at_a_time = threading.Lock()  # of what takes its time
        service.daemon.watchers.append(self._turned)

    def _turned(self, _turn: Turn, _cpu_s: float) -> None:
        self.turned_s = time.monotonic()

    @property
    def board(self) -> Board:
        """How things stand: take it once per request, as the next may come at any time."""
        return self.service.daemon.board

    @property
    def is_ready(self) -> bool:
        """Whether a turn came about lately; each writes to the store, so that works too."""
        return not self.service.daemon.failing and time.monotonic() - self.turned_s < LATELY_S

    def page(self, board: Board, key: Hashable, made: Callable[[], BaseModel]) -> bytes:
        """The page as JSON, made once per board."""
        of, kept = self._pages
        if of is not board:
            kept = {}
            self._pages = (board, kept)
        found = kept.get(key)
        if found is None:
            found = made().model_dump_json().encode()
            if len(kept) < MOST_PAGES:
                kept[key] = found
        return found
