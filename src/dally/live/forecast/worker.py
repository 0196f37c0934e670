"""Answers questions, here or in a process of its own: the engine holds on to the interpreter while it works."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

from dally.live.forecast.estimator import Estimator, apart
from dally.live.forecast.job_forecast import Answer, Question, answer
from dally.live.forecast.lifetimes import PastJob


class Forecaster:
    """Learns from jobs as they come and end; asked with a present as bytes, it answers from their like."""

    def __init__(self, copies: bool = False) -> None:
        self._estimator = Estimator(copies)

    def learn(self, past: Sequence[PastJob], now: float) -> None:
        """Jobs that came, or ended."""
        self._estimator.learn(past, now)

    def ask(self, content: bytes, question: Question) -> Answer:
        """What the futures of that present say."""
        return answer(self._estimator, content, question)

    def close(self) -> None:
        """No more questions."""


class WorkerForecaster(Forecaster):
    """The same in a worker process, which is started with the first question and again should it die."""

    def __init__(self) -> None:
        super().__init__()
        self._known: list[PastJob] = []
        self._pool: ProcessPoolExecutor | None = None

    def learn(self, past: Sequence[PastJob], now: float) -> None:
        self._known += past
        del self._known[:-MOST_KNOWN]
        if self._pool is not None and past:
            try:
                self._learn_from(self._pool, past, now)
            except BrokenProcessPool:
                self._pool = None  # the next question starts another, which is told all that is known

    def ask(self, content: bytes, question: Question) -> Answer:
        for attempt in (1, 2):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, get_context("spawn"), end_with_the_daemon, (os.getpid(),))
                self._learn_from(self._pool, self._known, self._known[-1].submit_s if self._known else 0.0)
            try:
                return self._pool.submit(_ask, content, question).result()
            except BrokenProcessPool:
                self._pool = None
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def _learn_from(self, pool: ProcessPoolExecutor, past: Sequence[PastJob], now: float) -> None:
        pool.submit(_learn, list(past), now)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


LOOK_EVERY_S = 1.0  # whether the daemon is still there
MOST_KNOWN = 50_000  # jobs that a worker which takes over is told of
_worker = Forecaster(copies=True)  # of the worker process, which has one thread


def end_with_the_daemon(daemon: int) -> None:
    """In the worker: Ctrl-C is the daemon's affair, and a worker whose daemon was killed ends too.

    By a timer and not by a thread: futures are copies of this process.
    """

    def look(*_: object) -> None:
        if os.getppid() != daemon:
            os._exit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY_S, LOOK_EVERY_S)


def _learn(past: list[PastJob], now: float) -> None:
    _worker.learn(past, now)


def _ask(content: bytes, question: Question) -> Answer:
    # In a copy: of every present that compiled code reads back, mypyc 2.4 loses some 0.9 MB (see Topology.tier_of).
    return apart(partial(_worker.ask, content, question))
