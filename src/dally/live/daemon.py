"""The daemon: cycle after cycle on the wall clock, whatever fails in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import structlog

from dally.errors import InputError, PolicyError
from dally.live.backends.base import Backend, BackendError, Publishes
from dally.live.cycle import CycleResult, Scheduler
from dally.live.garbage import GarbageCollector
from dally.live.publication import publication_of
from dally.live.status import ClusterStatus, status_of
from dally.live.store.database import StoreError
from dally.report.explanation import ACTION
from dally.report.explanation.waiting import WaitRecords

PAUSE_S: Final = 1.0  # between two looks at the backend, of the wall clock
PRUNE_EVERY_S: Final = 3600.0
KEEP_REASONS_S: Final = 7 * 86400.0  # of the engine's clock
KEEP_PREDICTIONS_S: Final = 30 * 86400.0
LOGGED: Final = ("job_id", "machine", "tier", "placement", "reason")  # of an event, where there is something to say

log = structlog.get_logger("dally")


class Daemon:
    """Looks after one cluster until `stop`. `status` is its latest state; other threads only read it."""

    def __init__(self, backend: Backend, begin: Callable[[], Scheduler], pause_s: float = PAUSE_S) -> None:
        """`begin` makes a scheduler from what the store knows.

        At the start, after a cycle that was not written, and when the backend has another cluster to tell of.
        """
        self.backend = backend
        self.status = ClusterStatus()
        self.cycles = 0
        self.failing = ""  # why the latest cycle did not come about, or not to its end
        self.failing_part = ""  # whose fault that is: a key of `failures`
        self.failures = {"backend": 0, "store": 0, "policy": 0, "daemon": 0}  # cycles that did not come about
        self.watchers: list[Callable[[CycleResult, float], None]] = []  # told of each cycle, and its CPU seconds
        self.lock = threading.Lock()  # held during a cycle, but while a concurrent backend answers
        self.expected_start: Callable[[str], str] = lambda _: ""  # of a job that waits, in words
        self._begin = begin
        self._pause_s = pause_s
        self._scheduler: Scheduler | None = None
        self._generation = backend.generation
        self._reasons: WaitRecords | None = None
        self._stop = threading.Event()
        self._pruned_s = 0.0
        self._problems: frozenset[str] = frozenset()  # of the cycle before
        self._garbage = GarbageCollector()

    @property
    def scheduler(self) -> Scheduler | None:
        """The engine's side; take `lock` before touching it."""
        return self._scheduler

    def run(self) -> None:
        """Until `stop`. Whatever goes wrong costs a cycle, never the daemon; but wrong input does at the first."""
        while not self._stop.is_set():
            pause_s = self._pause_s
            try:
                result = self.run_cycle()
                if self._scheduler is not None:
                    pause_s = min(pause_s, self._scheduler.clock.pause_s(result.next_s))
                self._garbage.between_cycles()
                self.backend.wait(max(0.01, pause_s))
            except BackendError as error:
                self._fails("backend", str(error))
            except (StoreError, PolicyError) as error:
                self._scheduler = None  # what it decided is not on the disk, so it did not happen
                self._fails("store" if isinstance(error, StoreError) else "policy", str(error))
            except Exception as error:
                if self.cycles == 0 and isinstance(error, InputError):
                    raise
                self._scheduler = None
                if self.failing != repr(error):
                    log.exception("bug")
                self._fails("daemon", repr(error))
        log.info("stopped", cycles=self.cycles)

    def run_cycle(self) -> CycleResult:
        """One cycle, and a new status."""
        with self.lock:
            began = time.thread_time()
            if self._generation != self.backend.generation:
                self._scheduler = None
            if self._scheduler is None:
                self._generation = self.backend.generation
                self._scheduler = self._begin()
                self._reasons = WaitRecords(self._scheduler.roster.topology.tiers)
            scheduler = self._scheduler
            assert self._reasons is not None
            result = scheduler.run_cycle(self._unlocked)
            self.cycles += 1
            self._reasons.learn(result.decisions)
            for row in result.log:
                if row["job_id"] and row["kind"] not in ("submit", ACTION):
                    self._reasons.forget(row["job_id"])
            status = status_of(scheduler, self._reasons, result, self.cycles, self.status)
            self._prune(scheduler, result.now)
            if not scheduler.orders.dry_run:
                self._publish(status, result)
            if result.failed and result.failed not in result.problems:
                result.problems.append(result.failed)
            self.status = replace(status, problems=tuple(result.problems))
            cpu_s = time.thread_time() - began
        self._note(result)
        self._notify(result, cpu_s)
        return result

    @contextmanager
    def _unlocked(self) -> Iterator[None]:
        """Let people's commands in while a backend answers that can be asked for several things at once."""
        if not self.backend.concurrent:
            yield
            return
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()

    def stop(self) -> None:
        """After the present cycle. Jobs run on."""
        self._stop.set()

    def _publish(self, status: ClusterStatus, result: CycleResult) -> None:
        """Users of the cluster's own tools see the status; if that fails, the cycle counts all the same."""
        if not isinstance(self.backend, Publishes):
            return
        try:
            self.backend.publish(publication_of(status, result.log, self.expected_start))
        except BackendError as error:
            result.failed = result.failed or str(error)

    def _note(self, result: CycleResult) -> None:
        """In the log; and whether all is well."""
        if result.failed:
            self._note_failure("backend", result.failed)
        else:
            if self.failing:
                log.info("recovered", after=self.failing)
            self.failing = self.failing_part = ""
        for row in result.log:
            if row["kind"] not in ("timer", "lease", "renew"):
                facts = {name: row[name] for name in LOGGED if row[name]}
                log.info(row["kind"], at_s=round(row["time_s"], 3), **facts)
        for problem in result.problems:
            if problem not in self._problems:  # those that last are told once
                log.warning("problem", what=problem)
        self._problems = frozenset(result.problems)

    def _notify(self, result: CycleResult, cpu_s: float) -> None:
        for watcher in self.watchers:
            watcher(result, cpu_s)

    def _fails(self, part: str, why: str) -> None:
        """There was no cycle: whoever watches learns that as of one."""
        self._note_failure(part, why)
        self.status = replace(self.status, problems=(why,))
        try:
            self._notify(CycleResult(self.status.at_s, self.status.at_s, problems=[why], failed=why), 0.0)
        except Exception:
            log.exception("bug")
        self._stop.wait(self._pause_s)

    def _note_failure(self, part: str, why: str) -> None:
        self.failures[part] += 1
        if self.failing != why:
            log.error(f"{part}_failed", why=why)
        self.failing, self.failing_part = why, part

    def _prune(self, scheduler: Scheduler, now: float) -> None:
        if now - self._pruned_s > PRUNE_EVERY_S * scheduler.clock.speed:
            self._pruned_s = now
            scheduler.store.prune(now - KEEP_REASONS_S, now - KEEP_PREDICTIONS_S)
