"""What other jobs on a real Slurm do to ours: those that Slurm keeps back, and those that share no node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dally.live.backends import base
from dally.live.backends.slurm import SlurmBackend
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.store import open_store
from dally.live.wall_clock import WallClock
from tests.live.slurm_site import SlurmSite
from tests.live.test_cycle import events
from tests.live.test_slurm_setup import User
from tests.live.test_slurm_site import dally_site, row_of

__all__ = ["dally_site"]
PAUSE_S = 0.2


class Daemon:
    """Its cycles on the site."""

    def __init__(self, site: SlurmSite, folder: Path) -> None:
        self.store = open_store(f"sqlite:///{folder}/dally.db")
        self.backend = SlurmBackend(conf=str(site.conf))
        clock = WallClock(time.time(), 1.0)
        setup = Setup("fifo-backfill")
        self.scheduler = Scheduler(self.backend, self.backend.topology(), setup, self.store, clock)

    def until(self, job_id: str, state: str, seconds: float = 30.0) -> None:
        """The job is in that state by Slurm's account."""
        until_s = time.monotonic() + seconds
        while self.states().get(job_id) != state:
            assert time.monotonic() < until_s, self.states()
            self.scheduler.run_cycle()
            time.sleep(PAUSE_S)

    def go_on(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.scheduler.run_cycle()
            time.sleep(PAUSE_S)

    def states(self) -> dict[str, str]:
        return {job.job_id: job.state for job in self.scheduler.roster.snapshot.jobs}

    def why(self, job_id: str) -> str | None:
        return self.scheduler.roster.blocked_by(job_id)

    def failed_starts(self, job_id: str) -> list[object]:
        failed = (row for row in events(self.store) if row["kind"] == "start_failed")
        return [row["reason"] for row in failed if row["job_id"] == job_id]


@pytest.fixture
def daemon(dally_site: SlurmSite, tmp_path: Path) -> Iterator[Daemon]:
    result = Daemon(dally_site, tmp_path)
    yield result
    result.backend.close()
    result.store.close()


def test_a_job_that_slurm_keeps_back_holds_up_no_job_of_another_partition(
    dally_site: SlurmSite, daemon: Daemon
) -> None:
    """Slurm calls the nodes of both unavailable meanwhile; and the blocked one says why for as long as it is."""
    dally_site.run("scontrol", "create", "PartitionName=few", "Nodes=n[01-06]", "AllowAccounts=small", "State=UP")
    try:
        user = User(dally_site)
        kept, other = (
            user.submit("-p", "few", "--gres=gpu:1", "--mem=100"),
            user.submit("--gres=gpu:1", "--mem=100"),
        )
        daemon.until(other, base.RUNNING)
        assert daemon.failed_starts(other) == []
        daemon.until(kept, base.QUEUED)
        assert daemon.why(kept) == "AccountNotAllowed"
        assert row_of(dally_site, kept)["priority"] == 0
    finally:
        dally_site.cancel_all()
        dally_site.run("scontrol", "delete", "PartitionName=few")


def test_nodes_that_another_user_has_alone_are_left_to_that_user(dally_site: SlurmSite, daemon: Daemon) -> None:
    words = ("--exclusive=user", "-w", "n01", "--gres=gpu:1", "--mem=100", "--wrap", "sleep 600")
    alone = dally_site.run("sbatch", "--parsable", "-o", "/dev/null", *words).strip()
    daemon.until(alone, base.RUNNING)
    user = User(dally_site)
    there = user.submit("--gres=gpu:1", "--mem=100", "-w", "n01")
    anywhere = user.submit("--gpus=4", "--mem=100")
    daemon.until(anywhere, base.RUNNING)
    daemon.go_on(2.0)
    assert daemon.states()[there] == base.QUEUED
    assert daemon.failed_starts(there) == []
    dally_site.run("scancel", alone)
    daemon.until(there, base.RUNNING)


def test_a_partition_of_one_user_a_node_is_slurms(dally_site: SlurmSite, daemon: Daemon) -> None:
    dally_site.run("scontrol", "create", "PartitionName=own", "Nodes=n[01-02]", "ExclusiveUser=YES", "State=UP")
    try:
        job_id = User(dally_site).submit("-p", "own", "--gres=gpu:1", "--mem=100")
        daemon.until(job_id, base.RUNNING)
        (job,) = [job for job in daemon.scheduler.roster.snapshot.jobs if job.job_id == job_id]
        assert not job.managed
        (left,) = daemon.backend.survey().left
        assert left.reason == "shares its nodes in a way that Dally does not model"
    finally:
        dally_site.cancel_all()
        dally_site.run("scontrol", "delete", "PartitionName=own")
