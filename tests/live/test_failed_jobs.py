"""Failed jobs that another run may help are queued again, so many times and no more; all others are left alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.assembly import Service
from dally.live.backends import base
from dally.live.backends.base import Submission
from dally.live.config import Config, Setup
from dally.live.cycle import CycleResult
from dally.live.failed_jobs import FailedJobs
from dally.live.store.schema import ACTIONS, JOBS
from dally.progress.failure import failure_in
from dally.testing.fake_backend import FakeBackend, FakeClock
from tests.live.slurm_bench import SlurmBench
from tests.live.slurm_cluster import SlurmCluster
from tests.waiting import wait_for

LOST = (
    "[rank3]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited"
)
# Fails twice, then ends well: each run leaves a line.
FAILS = """
import sys, time
path, line = sys.argv[1:]
with open(path, "a") as runs:
    print("run", file=runs)
time.sleep(1.5)
if len(open(path).readlines()) < 3:
    print(line, flush=True)
    raise SystemExit(1)
"""


class OwnBackend(FakeBackend):
    """One of this test alone."""

    folder = ""

    def identity(self) -> str:
        return self.folder


class Site:
    """A service that retries twice, on a cluster in memory."""

    def __init__(self, folder: Path) -> None:
        self.backend = OwnBackend(1, 2, 8)
        self.backend.folder = str(folder)
        self.service = Service(Config(folder=folder, retries=2), self.backend)
        self.service.clock = FakeClock(self.backend)

    def cycle(self, after_s: float = 1.0) -> None:
        self.backend.now_s += after_s
        self.service.daemon.run_cycle()

    def fails(self, job_id: str, line: str, keeper: FailedJobs | None = None) -> str:
        """It runs, and fails with that line in its log; its state then."""
        self.cycle()
        self.cycle(30.0)
        assert self.backend.jobs[job_id].state == base.RUNNING
        self.backend.fail(job_id, "exit code 1")
        self.cycle()
        failure = failure_in([line])
        assert failure is not None
        result = CycleResult(self.backend.now_s, self.backend.now_s, failures={job_id: failure})
        (keeper or self.service.failed_jobs).on_cycle(result, 0.0)
        return self.backend.jobs[job_id].state

    def acts(self) -> list[str]:
        return [f"{row['told']} by {row['who']}: {row['why']}" for row in self.service.store.rows(select(ACTIONS))]

    def submit(self, **facts: str) -> str:
        return self.backend.submit(Submission(JobSpec(8, duration_s=600.0, user="ana", **facts)))  # type: ignore[arg-type]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.close()


def test_a_job_that_lost_a_peer_runs_again_twice_and_no_more(site: Site) -> None:
    job_id = site.submit()
    assert site.fails(job_id, LOST) == base.QUEUED
    why = f"a collective exchange that timed out or lost a peer ({LOST.partition(': ')[2]})"
    assert site.acts() == [f"queued again by dally-retries: {why}; retry 1 of 2"]
    service = site.service
    later = FailedJobs(
        2, service.store, service.daemon, service.failed_jobs._acts
    )  # as of a daemon that starts again
    assert site.fails(job_id, LOST, later) == base.QUEUED
    assert site.fails(job_id, LOST) == base.FAILED
    assert len(site.acts()) == 2
    outcomes = [row["outcome"] for row in service.store.rows(select(JOBS).order_by(JOBS.c.number))]
    assert outcomes == ["failed"] * 3


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory.", {}),
        ("ModuleNotFoundError: No module named 'flash_attn'", {}),
        (LOST, {"preempt": "no"}),
    ],
)
def test_what_another_run_would_not_help_is_left_alone(site: Site, line: str, facts: dict[str, str]) -> None:
    assert site.fails(site.submit(**facts), line) == base.FAILED
    assert site.acts() == []


def test_nothing_is_queued_again_unless_the_configuration_says_so(site: Site) -> None:
    service = site.service
    watchers = len(service.daemon.watchers)
    FailedJobs(0, service.store, service.daemon, service.failed_jobs._acts)
    assert len(service.daemon.watchers) == watchers
    assert Config().retries == 0
    with pytest.raises(InputError, match="retries: -1: must be 0 to 100"):
        Config(retries=-1).checked()


def test_a_backend_that_refuses_costs_a_line_and_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(job_id: str) -> None:
        raise base.BackendError("no")

    monkeypatch.setattr(site.backend, "retry", refuse)
    assert site.fails(site.submit(), LOST) == base.FAILED
    rows = site.service.store.rows(select(ACTIONS))
    assert [row["outcome"] for row in rows] == ["refused: no"]


def test_a_real_process_that_fails_twice_ends_well(tmp_path: Path) -> None:
    config = Config(cluster="1x1x4", folder=tmp_path / "state", retries=2, allow_root_jobs=True)
    service = Service(config)
    runs = tmp_path / "runs"
    command = (sys.executable, "-c", FAILS, str(runs), LOST)
    job_id = service.backend.submit(Submission(JobSpec(4), command))  # type: ignore[attr-defined]

    def outcomes() -> list[str]:
        service.daemon.run_cycle()
        rows = service.store.rows(select(JOBS).where(JOBS.c.job_id == job_id).order_by(JOBS.c.number))
        return [row["outcome"] for row in rows]

    try:
        wait_for(lambda: outcomes()[2:] == ["finished"], 60.0)
        assert outcomes() == ["failed", "failed", "finished"]
        assert runs.read_text() == "run\n" * 3
    finally:
        service.close()


def test_a_failed_job_of_a_real_slurm_runs_again(slurm: SlurmCluster, tmp_path: Path) -> None:
    bench = SlurmBench(slurm, tmp_path, Setup("fifo"))
    runs = tmp_path / "runs"
    command = (sys.executable, "-c", FAILS, str(runs), LOST)
    job_id = bench.backend.submit(Submission(JobSpec(8), command, str(tmp_path)))

    def fails() -> bool:
        result = bench.scheduler.run_cycle()
        return job_id in result.failures and result.failures[job_id].kind.again

    def ends() -> bool:
        bench.cycle()
        return job_id not in bench.scheduler.roster.jobs and runs.read_text() == "run\n" * 3

    wait_for(fails, 60.0)
    bench.backend.retry(job_id)
    with pytest.raises(base.BackendError, match="has not failed"):
        bench.backend.retry(job_id)
    wait_for(fails, 60.0)
    bench.backend.retry(job_id)
    wait_for(ends, 60.0)
    assert slurm.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T").strip() == "COMPLETED"
