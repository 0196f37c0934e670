"""The local backend: jobs are processes that outlive the daemon."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dally.cluster.topology import grid
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends import base, job_folder, local
from dally.live.backends.base import BackendError, ObservedJob, Submission
from dally.live.backends.job_folder import JobFolder
from dally.live.backends.local import LocalBackend
from tests.waiting import wait_for

ONE = {"rack0-m0": 4}


OPEN: list[LocalBackend] = []


@pytest.fixture(autouse=True)
def _close_all() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def opened(folder: Path, grace_s: float = 5.0, speed: float = 1.0) -> LocalBackend:
    OPEN.append(LocalBackend(folder, grid(1, 2, 4), speed, grace_s))
    return OPEN[-1]


def command(text: str) -> Submission:
    return Submission(JobSpec(4), ("sh", "-c", text))


def told(backend: LocalBackend, job_id: str) -> ObservedJob:
    return {job.job_id: job for job in backend.snapshot().jobs}[job_id]


def until(backend: LocalBackend, job_id: str, state: str) -> ObservedJob:
    for _ in range(100):
        job = told(backend, job_id)
        if job.state == state:
            return job
        backend.wait(0.1)
    raise AssertionError(f"{job_id} is {job.state}, not {state}")


def test_a_job_runs_where_it_is_put_and_knows_it(tmp_path: Path) -> None:
    backend = opened(tmp_path)
    job = backend.submit(command("echo $DALLY_NODES $DALLY_GPUS_PER_NODE; sleep 0.3"))
    backend.start_job(job, {"rack0-m0": 3, "rack0-m1": 1})
    assert until(backend, job, base.RUNNING).placement == {"rack0-m0": 3, "rack0-m1": 1}
    assert until(backend, job, base.FINISHED).placement == {}
    assert (tmp_path / "jobs" / job / "log").read_text() == "rack0-m0,rack0-m1 3,1\n"


def test_an_exit_code_is_a_failure(tmp_path: Path) -> None:
    backend = opened(tmp_path)
    job = backend.submit(command("exit 3"))
    backend.start_job(job, ONE)
    assert until(backend, job, base.FAILED).reason == "exit code 3"


def test_a_preempted_job_may_write_its_checkpoint_and_goes_on(tmp_path: Path) -> None:
    backend = opened(tmp_path)
    mark = tmp_path / "mark"
    job = backend.submit(
        command(f"trap 'echo saved >> {mark}; exit 0' TERM; echo $DALLY_RESTARTS >> {mark}; sleep 60 & wait")
    )
    backend.start_job(job, ONE)
    until(backend, job, base.RUNNING)
    wait_for(lambda: mark.exists() and "0" in mark.read_text())
    backend.preempt_job(job)
    until(backend, job, base.QUEUED)
    backend.start_job(job, {"rack0-m1": 4})
    until(backend, job, base.RUNNING)
    wait_for(lambda: mark.read_text() == "0\nsaved\n1\n")
    backend.cancel_job(job)
    until(backend, job, base.CANCELLED)


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    backend = opened(tmp_path, grace_s=0.3)
    job = backend.submit(command("trap '' TERM; while :; do sleep 0.1; done"))
    backend.start_job(job, ONE)
    until(backend, job, base.RUNNING)
    backend.preempt_job(job)
    until(backend, job, base.QUEUED)


def test_jobs_outlive_the_daemon(tmp_path: Path) -> None:
    first = opened(tmp_path)
    runs, ends, waits = (
        first.submit(command("sleep 60")),
        first.submit(command("sleep 0.2")),
        first.submit(command("true")),
    )
    first.start_job(runs, ONE)
    first.start_job(ends, {"rack0-m1": 4})
    until(first, runs, base.RUNNING)
    time.sleep(0.5)
    second = opened(tmp_path)
    assert until(second, runs, base.RUNNING).placement == ONE
    assert until(second, ends, base.FINISHED)
    assert told(second, waits).state == base.QUEUED
    second.cancel_job(runs)
    until(second, runs, base.CANCELLED)


def test_a_process_that_was_killed_is_a_failure(tmp_path: Path) -> None:
    backend = opened(tmp_path)
    job = backend.submit(command("sleep 60"))
    backend.start_job(job, ONE)
    until(backend, job, base.RUNNING)
    os.killpg(int((tmp_path / "jobs" / job / "pid").read_text()), signal.SIGKILL)
    assert until(backend, job, base.FAILED).reason == "its process was killed"


def test_a_process_that_comes_up_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever started it waits for it; another daemon calls it off, and then it does nothing."""
    monkeypatch.setattr(local, "WRAPPER", "until [ -e go ]; do sleep 0.05; done\n" + local.WRAPPER)
    monkeypatch.setattr(job_folder, "COME_UP_S", 0.2)
    first = opened(tmp_path)
    late, called_off = (first.submit(command(f"touch {tmp_path}/ran-{number}; sleep 60")) for number in (1, 2))
    first.start_job(late, ONE)
    first.start_job(called_off, {"rack0-m1": 4})
    time.sleep(0.3)
    assert [job.state for job in first.snapshot().jobs] == [base.STARTING, base.STARTING]
    (tmp_path / "jobs" / late / "go").touch()
    until(first, late, base.RUNNING)
    process = first._children[int(called_off)]
    until(opened(tmp_path), called_off, base.QUEUED)
    (tmp_path / "jobs" / called_off / "go").touch()
    assert process.wait() == 1
    wait_for((tmp_path / "ran-1").exists)
    assert not (tmp_path / "ran-2").exists()
    first.cancel_job(late)
    until(first, late, base.CANCELLED)


def test_a_process_that_tells_its_number_or_ends_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = opened(tmp_path)
    job = backend.submit(command("until [ -e $DALLY_STATE/go ]; do sleep 0.05; done"))
    seen: list[str] = []
    looked = JobFolder.process

    def look(one: JobFolder) -> str:
        """It tells its number right after the first look, and ends right after another."""
        seen.append(looked(one))
        if len(seen) == 1:
            wait_for((one.path / "pid").exists)
        elif one.job.state == base.RUNNING:
            (one.path / "go").touch()
            wait_for((one.path / "exit").exists)
        return seen[-1]

    monkeypatch.setattr(JobFolder, "process", look)
    backend.start_job(job, ONE)
    until(backend, job, base.RUNNING)
    until(backend, job, base.FINISHED)


def test_a_job_without_a_command_takes_its_time(tmp_path: Path) -> None:
    backend = opened(tmp_path, speed=100.0)
    job = backend.submit(Submission(JobSpec(4, duration_s=30.0)))
    backend.start_job(job, ONE)
    began = time.monotonic()
    until(backend, job, base.FINISHED)
    assert time.monotonic() - began < 5.0


def test_a_folder_that_cannot_be_read_costs_nobody_else_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = opened(tmp_path)
    first = backend.submit(command("sleep 60"))

    def full(*_: object) -> None:
        raise InputError("job.json: no space left on the device")

    with monkeypatch.context() as patched:
        patched.setattr("dally.live.backends.job_folder.write_whole", full)
        with pytest.raises(BackendError, match="no space left"):
            backend.submit(command("sleep 60"))
    assert backend.submit(command("sleep 60")) == "2"
    (tmp_path / "jobs" / "2" / "job.json").unlink()
    again = opened(tmp_path)
    assert [job.job_id for job in again.snapshot().jobs] == [first]
    assert again.submit(command("sleep 60")) == "3"


def test_what_it_refuses(tmp_path: Path) -> None:
    backend = opened(tmp_path)
    job, other = backend.submit(command("sleep 60")), backend.submit(command("sleep 60"))
    backend.start_job(job, ONE)
    backend.start_job(job, ONE)  # twice the same is one
    with pytest.raises(BackendError, match="not enough GPUs free on rack0-m0"):
        backend.start_job(other, ONE)
    with pytest.raises(BackendError, match="no such job"):
        backend.start_job("99", ONE)
    until(backend, job, base.RUNNING)
    backend.cancel_job(job)
    until(backend, job, base.CANCELLED)
    with pytest.raises(BackendError, match="it is cancelled"):
        backend.start_job(job, ONE)


def test_a_job_that_ends_as_it_is_preempted_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = opened(tmp_path)
    job = backend.submit(command("sleep 0.5"))
    backend.start_job(job, ONE)
    until(backend, job, base.RUNNING)
    while not (tmp_path / "jobs" / job / "exit").exists():
        time.sleep(0.05)
    with monkeypatch.context() as patched:
        patched.setattr(LocalBackend, "_look", lambda *_: None)  # it ended right after the look
        backend.preempt_job(job)
    assert told(backend, job).state == base.FINISHED
