"""Carries one what-if out: here, or in a process of its own that can be stopped at any moment."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from dally.errors import InputError
from dally.live.as_trace import history_csv
from dally.live.forecast.present import load_present
from dally.live.forecast.whatif.answer import WhatIfAnswer
from dally.live.forecast.whatif.from_history import LookBack
from dally.live.forecast.whatif.from_now import LookAhead, Report, past_of_store
from dally.live.forecast.worker import end_with_the_daemon
from dally.live.store import open_store

NICE: Final = 10  # the daemon comes first


class StoppedError(Exception):
    """Somebody took the question back."""


@dataclass
class Task:
    """A question, and the store to look up what was."""

    asked: LookAhead | LookBack
    store: str  # its address

    def answer(self, folder: Path, report: Report, copies: bool) -> WhatIfAnswer:
        """What comes of it."""
        asked, store = self.asked, open_store(self.store)
        try:
            if isinstance(asked, LookBack):
                history = history_csv(store, asked.from_s, asked.to_s)
            else:
                past = past_of_store(store, load_present(asked.content).now, asked.before.setup.usual_model)
        finally:
            store.close()
        if isinstance(asked, LookBack):
            return asked.answer(history, folder, report)
        return asked.answer(past, report, copies)


class Runner:
    """In this process: for tests, as it holds up whoever else works here."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def run(self, task: Task, report: Report) -> WhatIfAnswer:
        """The answer; StoppedError if `stop` was called before."""

        def told(done: int, total: int) -> None:
            if self._stopped.is_set():
                raise StoppedError
            report(done, total)

        with tempfile.TemporaryDirectory(prefix="dally-whatif-") as folder:
            return task.answer(Path(folder), told, copies=False)

    def stop(self) -> None:
        """From another thread."""
        self._stopped.set()


class ProcessRunner(Runner):
    """In a process of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._process: BaseProcess | None = None
        self._lock = threading.Lock()

    def run(self, task: Task, report: Report) -> WhatIfAnswer:
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        with tempfile.TemporaryDirectory(prefix="dally-whatif-") as folder, ours:
            with self._lock:
                if self._stopped.is_set():
                    raise StoppedError
                self._process = context.Process(target=_work, args=(task, folder, theirs, os.getpid()), daemon=True)
                self._process.start()
            theirs.close()
            try:
                return self._listen(ours, report)
            finally:
                self._end()

    def _listen(self, pipe: Connection, report: Report) -> WhatIfAnswer:
        while True:
            try:
                kind, told = pipe.recv()
            except EOFError:
                if self._stopped.is_set():
                    raise StoppedError from None
                raise InputError("the process that worked on it ended before it was done") from None
            if kind == "done":
                assert isinstance(told, WhatIfAnswer)
                return told
            if kind == "failed":
                raise InputError(told)
            report(*told)

    def stop(self) -> None:
        self._stopped.set()
        self._end()

    def _end(self) -> None:
        """The process with all its copies."""
        with self._lock:
            process = self._process
            if process is None or process.pid is None:
                return
            with suppress(ProcessLookupError, PermissionError):
                if os.getpgid(process.pid) == process.pid:
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()


def _work(task: Task, folder: str, pipe: Connection, daemon: int) -> None:
    """The process's whole life."""
    os.setpgid(0, 0)
    os.nice(NICE)
    end_with_the_daemon(daemon)
    try:
        found = task.answer(Path(folder), lambda *told: pipe.send(("progress", told)), copies=True)
        pipe.send(("done", found))
    except InputError as error:
        pipe.send(("failed", str(error)))
    except Exception as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
