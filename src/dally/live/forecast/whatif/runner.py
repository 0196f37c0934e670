"""Carries one what-if out: here, or in a process of its own that can be stopped at any moment."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from dally.cluster.formats.writers import to_toml
from dally.cluster.links import has_links
from dally.cluster.presets import NO_NETWORK
from dally.errors import InputError
from dally.live.config import Setup
from dally.live.forecast.future import load_present
from dally.live.forecast.whatif.from_now import FutureQuestion, Report, past_of_store
from dally.live.forecast.worker import end_with_the_daemon
from dally.live.history.recorded_trace import history_csv
from dally.live.store import open_store
from dally.metrics.summary import Row
from dally.runs.scenario import Scenario
from dally.sweep.batch import RowStore, carry_out
from dally.sweep.run import Run
from dally.sweep.whatif.change import Change, WhatIfAnswer, WhatIfSide, changed
from dally.sweep.whatif.from_history import NAMED, HistoryQuestion, HistoryWhatIf
from dally.sweep.workers.local import ThisProcess
from dally.traces import read_history
from dally.whole_file import write_whole

SEEDS: Final = (1, 2, 3)  # of a replay
NICE: Final = 10  # the daemon comes first


class StoppedError(Exception):
    """Somebody took the question back."""


@dataclass(frozen=True)
class Period:
    """Jobs that ended between two moments of the engine's clock."""

    from_s: float
    to_s: float


@dataclass(frozen=True)
class WhatIfTask:
    """A change, what it is asked of, and the store to look up what was."""

    change: Change
    before: WhatIfSide[Setup]
    of: FutureQuestion | Period
    store: str  # its address

    def answer(self, folder: Path, report: Report, copies: bool) -> WhatIfAnswer:
        """What comes of it."""
        store = open_store(self.store)
        try:
            if isinstance(self.of, Period):
                history = history_csv(store, self.of.from_s, self.of.to_s)
            else:
                past = past_of_store(store, load_present(self.of.content).now, self.before.config.usual_model)
        finally:
            store.close()
        if isinstance(self.of, Period):
            return self._replayed(history, folder, report)
        return self.of.answer(self.before, changed(self.change, self.before, folder), past, report, copies)

    def _replayed(self, history: str, folder: Path, report: Report) -> WhatIfAnswer:
        """From history, as `dally whatif` does; files go into the folder."""
        write_whole(folder / "jobs.csv", history.encode())
        write_whole(folder / "today.toml", to_toml(self.before.topology).encode())
        world = self.before.config.world_values()
        base = Scenario(str(folder / "jobs.csv"), str(folder / "today.toml"), **world, durations="recorded")
        stated = has_links(self.before.topology) or base.network_settings
        network = base.network or ("" if stated else NO_NETWORK)
        change = replace(self.change, policy=self.change.policy or base.policy)
        question = HistoryQuestion(base, change, SEEDS, True, network)
        jobs = read_history(Path(base.trace), base.trace_format, base.strict, base.zone)

        def carry(runs: list[Run]) -> list[Row]:
            with RowStore(folder) as store:
                outcome = carry_out(runs, ThisProcess(), store, lambda now: report(now.done, now.total))
            if outcome.failures:
                raise InputError("; ".join(outcome.failures))
            return outcome.rows

        return HistoryWhatIf(question, jobs).answer(folder, carry, NAMED)


class Runner:
    """In this process: for tests, as it holds up whoever else works here."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def run(self, task: WhatIfTask, report: Report) -> WhatIfAnswer:
        """The answer; StoppedError if `stop` was called before."""

        def progress(done: int, total: int) -> None:
            if self._stopped.is_set():
                raise StoppedError
            report(done, total)

        with tempfile.TemporaryDirectory(prefix="dally-whatif-") as folder:
            return task.answer(Path(folder), progress, copies=False)

    def stop(self) -> None:
        """From another thread."""
        self._stopped.set()


class ProcessRunner(Runner):
    """In a process of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._process: BaseProcess | None = None
        self._lock = threading.Lock()

    def run(self, task: WhatIfTask, report: Report) -> WhatIfAnswer:
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
                kind, content = pipe.recv()
            except EOFError:
                if self._stopped.is_set():
                    raise StoppedError from None
                raise InputError("the process that worked on it ended before it was done") from None
            if kind == "done":
                assert isinstance(content, WhatIfAnswer)
                return content
            if kind == "failed":
                raise InputError(content)
            report(*content)

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


def _work(task: WhatIfTask, folder: str, pipe: Connection, daemon: int) -> None:
    """The process's whole life."""
    os.setpgid(0, 0)
    os.nice(NICE)
    end_with_the_daemon(daemon)
    try:
        answer = task.answer(Path(folder), lambda *done: pipe.send(("progress", done)), copies=True)
        pipe.send(("done", answer))
    except InputError as error:
        pipe.send(("failed", str(error)))
    except Exception as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
