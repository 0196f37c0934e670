"""This process, one run after the other, and processes on this machine, one run at a time each."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from dally.sweep.workers import Failure, Item, Result, attempt


class ThisProcess:
    """No workers at all. An error ends it: who calls from Python wants the traceback, not a line about it."""

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | Failure]]:
        """See Workers."""
        for item in items:
            yield item, function(item)


ATTEMPTS = 2  # a worker may be killed for what others do, e.g. for memory; twice is no accident


class LocalWorkers:
    """Worker processes, started afresh (spawn) so that they share nothing with this one."""

    def __init__(self, jobs: int = 0) -> None:
        self.jobs = jobs or len(os.sched_getaffinity(0))
        self._idle: list[_Worker] | None = None  # None: each call has processes of its own

    @contextmanager
    def reused(self) -> Iterator[None]:
        """Use the same processes from call to call until the end of this: many short calls start them once."""
        self._idle = []
        try:
            yield
        finally:
            idle, self._idle = self._idle, None
            for worker in idle:
                worker.stop()

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | Failure]]:
        """See Workers. A worker that dies takes only its own item with it."""
        todo = deque(range(len(items)))
        tries = [0] * len(items)
        workers = [self._worker(function) for _ in range(min(self.jobs, len(items)))]
        try:
            while todo or any(worker.place is not None for worker in workers):
                for worker in workers:
                    if todo and worker.place is None:
                        worker.begin(place := todo.popleft(), items[place])
                        tries[place] += 1
                for worker in _ready(workers):
                    place, result = worker.end()
                    if result is None and tries[place] < ATTEMPTS:
                        todo.appendleft(place)
                    else:
                        yield items[place], worker.obituary() if result is None else result
        finally:
            for worker in workers:
                if self._idle is not None and worker.place is None:
                    self._idle.append(worker)
                else:
                    worker.stop()

    def _worker(self, function: Callable[[Any], Any]) -> _Worker:
        idle = self._idle or []
        match = next((worker for worker in idle if worker.function is function), None)
        if match is None:
            return _Worker(function)
        idle.remove(match)
        return match


class _Worker:
    """A process at the other end of a pipe. Either end notices when the other is gone."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.place: int | None = None  # of the item it works on
        self.function = function
        self._start()

    def _start(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(self.function, theirs), daemon=True)
        resource_tracker.ensure_running()  # starting it undoes what the next line does
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the worker inherits it: no traceback
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        theirs.close()  # or the pipe would stay open when the worker is gone

    def begin(self, place: int, item: object) -> None:
        """Give it an item. If it died meanwhile, `end` will notice."""
        self.place = place
        with suppress(OSError):
            self.pipe.send(item)

    def end(self) -> tuple[int, Any]:
        """The place of its item and what came of it; None if the worker died, and then there is a new one."""
        assert self.place is not None
        place, self.place = self.place, None
        try:
            return place, self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            self.death = -(self.process.exitcode or 0)
            self.pipe.close()
            self._start()
            return place, None

    def obituary(self) -> Failure:
        """How its predecessor died."""
        by = f"signal {self.death}" if self.death > 0 else f"exit code {-self.death}"
        hint = "; out of memory?" if self.death == signal.SIGKILL else ""
        return Failure(f"its process died {ATTEMPTS} times ({by}{hint})")

    def stop(self) -> None:
        """End it, whatever it does."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Those of the busy ones that have something to tell, or died."""
    busy = {worker.pipe: worker for worker in workers if worker.place is not None}
    return [busy[cast("Connection", pipe)] for pipe in wait(list(busy))]


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """What a worker does until the other end of the pipe is gone. Ctrl-C is for the other end to handle."""
    try:
        while True:
            pipe.send(attempt(function, pipe.recv()))
    except (EOFError, OSError):
        return
