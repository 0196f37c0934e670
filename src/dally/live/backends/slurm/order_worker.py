"""The thread in which orders are carried out beside the daemon's cycles; no error ends it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import structlog

Batch = TypeVar("Batch")

log = structlog.get_logger("dally")


class OrderWorker(ABC, Generic[Batch]):
    """Waits for work, takes a batch of it and carries it out, until it is closed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()  # guards all that the thread shares with its callers
        self._closed = False
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _take(self) -> Batch | None:
        """The next batch; None: there is nothing to do. `_changed` is held."""

    @abstractmethod
    def _carry_out(self, batch: Batch) -> None:
        """Without `_changed`: it may take seconds."""

    @abstractmethod
    def _give_up(self, batch: Batch, error: Exception) -> None:
        """What is to be known of a batch that was not carried out as a whole. `_changed` is held."""

    def _wake(self) -> None:
        """There is work; `_changed` is held."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _end(self, within_s: float) -> None:
        """Take no more, and wait for what is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(within_s)

    def _next(self) -> Batch | None:
        with self._changed:
            while not self._closed:
                batch = self._take()
                if batch is not None:
                    return batch
                self._changed.wait()
        return None

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            try:
                self._carry_out(batch)
            except Exception as error:  # whatever it is: without this thread no later order would be carried out
                log.exception("orders", worker=self._name)
                with self._changed:
                    self._give_up(batch, error)
                    self._changed.notify_all()
