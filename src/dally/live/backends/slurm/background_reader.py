"""Reads what changes rarely beside the cycles: while the tool hangs, the last answer counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from dally.live.backends.base import BackendError
from dally.live.backends.slurm.tools import NoAnswerError

WITHIN_S: Final = 1.0  # a reader that is done so soon counts in the same cycle
AGAIN_S: Final = 1.0  # after a tool that did not answer

Answer = TypeVar("Answer")


class BackgroundReader(Generic[Answer]):
    """Asks now and then, in a thread that no cycle waits for longer than a second."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._answer: Answer | None = None  # None: there was none yet
        self._error: BackendError | None = None  # of the latest attempt
        self._thread: threading.Thread | None = None
        self.due_s = 0.0  # of the monotonic clock

    @property
    def known(self) -> Answer | None:
        """The last answer."""
        return self._answer

    @property
    def problem(self) -> str:
        """Why the last answer is an old one; empty: it is not."""
        return str(self._error) if isinstance(self._error, NoAnswerError) else ""

    def latest(self, read: Callable[[], Answer]) -> Answer:
        """The last answer, a new one if it is time and the tool answers soon; the first is waited for."""
        if self._answer is None:
            self._answer = read()
            self.due_s = time.monotonic() + self._every_s
        elif self._thread is None and time.monotonic() >= self.due_s:
            self._thread = threading.Thread(target=self._try, args=(read,), name="reader", daemon=True)
            self._thread.start()
            self._thread.join(WITHIN_S)
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            if self._error is not None and not self.problem:
                raise self._error  # a refusal is no outage
        return self._answer

    def _try(self, read: Callable[[], Answer]) -> None:
        try:
            self._answer, self._error = read(), None
            self.due_s = time.monotonic() + self._every_s
        except BackendError as error:
            self._error = error
            self.due_s = time.monotonic() + AGAIN_S
        except Exception as error:  # whatever it is: the cycle has to know
            self._error = BackendError(f"{type(error).__name__}: {error}")
            self.due_s = time.monotonic() + AGAIN_S
