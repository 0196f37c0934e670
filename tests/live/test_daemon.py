"""The daemon through bad days: a store that is full or locked, clocks that jump, kill -9."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dally.cluster.topology import grid
from dally.errors import InputError, PolicyError
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import BackendError, Observed, Publication, StartOrder, Submission
from dally.live.backends.local import LocalBackend
from dally.live.config import Setup
from dally.live.cycle import CycleResult, Scheduler
from dally.live.daemon import Daemon
from dally.live.job_status import JobStatus
from dally.live.lock import ClusterLock
from dally.live.status import ClusterStatus, status_of
from dally.live.store import open_store
from dally.live.wall_clock import WallClock
from dally.report.explanation.waiting import WaitRecords
from dally.testing.fake_backend import FakeBackend, FakeClock
from tests.waiting import wait_for


class Life:
    """A daemon on a fake cluster, in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self.backend = FakeBackend(1, 2, 8)
        self.path = folder / "dally.db"
        self.store = store = open_store(f"sqlite:///{self.path}", patience_s=0.1)
        clock = WallClock(time.time())
        self.daemon = Daemon(
            self.backend,
            lambda: Scheduler(self.backend, self.backend.topology(), Setup(), store, clock),
            pause_s=0.05,
        )
        self.thread = threading.Thread(target=self.daemon.run)
        self.thread.start()

    def until(self, job_id: str, state: str) -> None:
        for _ in range(200):
            if self.backend.jobs[job_id].state == state:
                return
            time.sleep(0.02)
        raise AssertionError(f"{job_id} is {self.backend.jobs[job_id].state}; {self.daemon.failing}")

    def until_failing(self, text: str) -> None:
        for _ in range(200):
            if text in self.daemon.failing:
                return
            time.sleep(0.02)
        raise AssertionError(f"failing: {self.daemon.failing!r}")

    def set_room(self, pages: int) -> None:
        with self.daemon.lock, self.store.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    def end(self) -> None:
        self.daemon.stop()
        self.thread.join()
        self.store.close()


@pytest.fixture
def life(tmp_path: Path):  # type: ignore[no-untyped-def]
    found = Life(tmp_path)
    yield found
    found.end()


def test_a_locked_store_costs_time_and_nothing_else(life: Life) -> None:
    first = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until(first, base.RUNNING)
    other = sqlite3.connect(life.path)
    other.execute("BEGIN IMMEDIATE")
    second = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until_failing("database is locked")
    assert life.backend.jobs[second].state == base.QUEUED  # not written down, so not done
    other.rollback()
    other.close()
    life.until(second, base.RUNNING)
    assert [job_id for job_id, _ in life.backend.starts] == [first, second]


def test_a_full_store_costs_time_and_nothing_else(life: Life) -> None:
    first = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until(first, base.RUNNING)
    life.set_room(1)  # no page more than there are
    second = life.backend.submit(Submission(JobSpec(8, name="x" * 200_000, duration_s=1e6)))
    life.until_failing("database or disk is full")
    assert life.backend.jobs[second].state == base.QUEUED
    life.set_room(1_000_000)
    life.until(second, base.RUNNING)
    assert len(life.backend.starts) == 2


def test_a_bug_of_the_policy_costs_turns_and_not_the_daemon(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    first = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until(first, base.RUNNING)

    def fail(*_: object) -> None:
        raise PolicyError("goes on without end")

    with monkeypatch.context() as patched:
        patched.setattr(Scheduler, "decide", fail)
        life.until_failing("goes on without end")
    second = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until(second, base.RUNNING)
    assert life.daemon.failures["policy"] > 0


@pytest.mark.parametrize("error", [ValueError("int of '...'"), InputError("queues.toml: line 3")])
def test_nothing_ends_a_daemon_that_has_begun(
    life: Life, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    first = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until(first, base.RUNNING)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(FakeBackend, "snapshot", fail)
        life.until_failing(str(error))
    second = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until(second, base.RUNNING)
    assert life.daemon.failures["daemon"] > 0


def test_wrong_input_ends_one_that_has_not(tmp_path: Path) -> None:
    def begin() -> Scheduler:
        raise InputError("queues.toml: line 3")

    with pytest.raises(InputError, match="line 3"):
        Daemon(FakeBackend(1, 2, 8), begin).run()


def test_the_backend_goes_away_and_comes_back(life: Life) -> None:
    job = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until(job, base.RUNNING)
    life.backend.failing = "slurmctld does not answer"
    life.until_failing("does not answer")
    life.backend.failing = ""
    other = life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until(other, base.RUNNING)
    wait_for(lambda: life.daemon.failing == "")


def test_the_board_tells_why_a_job_waits(life: Life) -> None:
    for _ in range(3):
        life.backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    life.until("2", base.RUNNING)
    for _ in range(100):
        if "3" in life.daemon.status.by_id:
            break
        time.sleep(0.02)
    line = life.daemon.status.by_id["3"]
    assert (line.state, line.place, line.why) == (
        "waiting",
        1,
        "first in the queue; it needs 8 GPUs and none is free",
    )
    assert [node.free for node in life.daemon.status.nodes] == [0, 0]


def test_jobs_of_which_nothing_changed_are_the_same_objects(tmp_path: Path) -> None:
    """And all fields of the others are as they would be without the cycle before."""
    backend, store = FakeBackend(1, 2, 8), open_store(f"sqlite:///{tmp_path}/dally.db")
    clock = FakeClock(backend)
    daemon = Daemon(backend, lambda: Scheduler(backend, backend.topology(), Setup(), store, clock))
    for gpus in (8, 8, 8, 16):
        backend.submit(Submission(JobSpec(gpus, duration_s=1e6, user="ana")))
    daemon.run_cycle()
    backend.now_s = 10.0
    daemon.run_cycle()  # they run where they were sent
    backend.now_s = 20.0
    before = daemon.status
    result = daemon.run_cycle()
    same = {job_id for job_id, line in daemon.status.by_id.items() if line is before.by_id[job_id]}
    assert same == {"3", "4"}  # they wait
    backend.cancel_job("3")
    result = daemon.run_cycle()
    assert daemon.status.by_id["4"].place == 1
    assert daemon.scheduler is not None
    reasons = WaitRecords(daemon.scheduler.roster.topology.tiers)
    alone = status_of(daemon.scheduler, reasons, result, daemon.cycles, ClusterStatus())
    assert alone.jobs == daemon.status.jobs
    running, waiting = alone.by_id["1"], alone.by_id["4"]
    place = {next(iter(running.placement)): 8}
    assert running == JobStatus(
        job_id="1", spec=running.spec, state="running", managed=True, submit_s=0.0, since_s=0.0, place=None,
        placement=place, tier="machine", work_s=20.0, slowdown=1.0, preemptions=0, migrations=0, why="", reason="",
        next_s=None, held_by="", first_by="", delay_by="", delay_until_s=None, non_preemptible="",
    )  # fmt: skip
    assert waiting == JobStatus(
        job_id="4", spec=waiting.spec, state="waiting", managed=True, submit_s=0.0, since_s=0.0, place=1,
        placement={}, tier="", work_s=0.0, slowdown=None, preemptions=0, migrations=0,
        why="first in the queue; it needs 16 GPUs and none is free", reason="gpus", next_s=None,
    )  # fmt: skip
    store.close()


def test_the_clock_does_not_jump_with_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WallClock(time.time() - 100.0)
    real = time.time
    for jump_s in (-3600.0, 3600.0):
        before = clock.now()
        monkeypatch.setattr(time, "time", lambda jump_s=jump_s: real() + jump_s)
        assert before <= clock.now() < before + 1.0
        assert clock.moment_s(real() + jump_s) <= clock.now()  # nothing was submitted in the future


def test_the_clock_goes_on_after_a_restart_even_if_the_wall_went_back() -> None:
    assert WallClock(time.time() + 500.0, at_least_s=42.0).now() >= 42.0


def test_one_daemon_per_cluster(tmp_path: Path) -> None:
    lock = ClusterLock(tmp_path / "lock", "this cluster")
    with pytest.raises(InputError, match="another `dally serve`"):
        ClusterLock(tmp_path / "lock", "this cluster")
    lock.release()
    ClusterLock(tmp_path / "lock", "this cluster").release()


def test_killed_at_any_moment_it_goes_on(tmp_path: Path) -> None:
    """Twenty jobs, a daemon that is killed again and again: each runs once from its beginning to its end."""
    chance = random.Random(4)
    backend = LocalBackend(tmp_path, grid(2, 2, 4))
    marks = tmp_path / "marks"
    for number in range(20):
        text = f"echo begin {number} >> {marks}; sleep 0.2; echo end {number} >> {marks}"
        backend.submit(Submission(JobSpec(chance.choice((1, 2, 4, 8))), ("sh", "-c", text)))
    command = [sys.executable, "-m", "dally", "serve", "--folder", str(tmp_path), "--cluster", "2x2x4"]
    command += ["--listen", "127.0.0.1:0"]
    for _ in range(6):
        daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.8, 2.2))
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert daemon.stdout is not None
    assert daemon.stdout.readline().startswith(b"Scheduling")  # from then on it listens to signals
    for _ in range(300):
        if marks.exists() and marks.read_text().count("end") == 20:
            break
        time.sleep(0.1)
    time.sleep(0.3)
    daemon.terminate()
    daemon.communicate(timeout=20)
    assert daemon.returncode == 0
    lines = marks.read_text().splitlines()
    assert sorted(lines) == sorted(f"{word} {number}" for word in ("begin", "end") for number in range(20))


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_cannot_be_read_is_told_once_and_is_no_refused_order(tmp_path: Path, dry_run: bool) -> None:
    backend, store, clock = FakeBackend(1, 2, 8), open_store(f"sqlite:///{tmp_path}/dally.db"), WallClock(0.0)
    daemon = Daemon(backend, lambda: Scheduler(backend, backend.topology(), Setup(), store, clock, dry_run))
    backend.unread = ("job 9 cannot be read",)
    with capture_logs() as told:
        results = [daemon.run_cycle() for _ in range(3)]
        backend.unread = ()
        daemon.run_cycle()
    assert [line["what"] for line in told if line["event"] == "problem"] == ["job 9 cannot be read"]
    assert [(result.problems, result.refused) for result in results] == [(["job 9 cannot be read"], 0)] * 3
    store.close()


class Unreachable(FakeBackend):
    """Answers what it is asked, and fails where `failing_at` says."""

    failing_at = ""

    def _reach(self, name: str) -> None:
        if name == self.failing_at:
            raise BackendError(f"{name}: timed out")

    def snapshot(self) -> Observed:
        self._reach("snapshot")
        return super().snapshot()

    def start(self, orders: Sequence[StartOrder], term: int) -> list[str]:
        self._reach("start")
        return super().start(orders, term)

    def complete(self) -> list[str]:
        self._reach("complete")
        return []

    def publish(self, publication: Publication) -> None:
        self._reach("publish")


@pytest.mark.parametrize("failing_at", ["start", "complete", "publish", "snapshot"])
def test_problems_of_the_backend_reach_those_who_watch(tmp_path: Path, failing_at: str) -> None:
    """Whatever else the cycle did is not lost, and what was not sent is sent again."""
    backend, store, clock = Unreachable(1, 2, 8), open_store(f"sqlite:///{tmp_path}/dally.db"), WallClock(0.0)
    daemon = Daemon(backend, lambda: Scheduler(backend, backend.topology(), Setup(), store, clock), pause_s=0.01)
    results: list[CycleResult] = []
    daemon.watchers.append(lambda result, _cpu_s: results.append(result))
    job = backend.submit(Submission(JobSpec(8, duration_s=1e6)))
    backend.failing_at = failing_at
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        wait_for(lambda: bool(results))
        why = f"{failing_at}: timed out"
        assert (results[0].failed, daemon.failing_part) == (why, "backend")
        assert any(why in problem for problem in daemon.status.problems)
        assert (job in daemon.status.by_id) == (failing_at != "snapshot")
        backend.failing_at = ""
        wait_for(lambda: backend.jobs[job].state == base.RUNNING and not daemon.failing)
        assert len(backend.starts) == 1
    finally:
        daemon.stop()
        thread.join()
        store.close()
