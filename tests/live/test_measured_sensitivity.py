"""Loops whose steps take longer across racks: from what they print the scheduler learns to keep them together."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dally.cluster.topology import grid
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import Submission
from dally.live.backends.local import LocalBackend
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.daemon import Daemon
from dally.live.job_progress import ProgressReader
from dally.live.store import open_store
from dally.live.wall_clock import WallClock
from dally.model import make_allocation
from tests.live import training_loop
from tests.waiting import wait_for

STEP_S = 0.05
APART = make_allocation(2, [(1, 4), (3, 4)])


class Site:
    """Two racks of two machines under a daemon, on this machine."""

    def __init__(self, folder: Path) -> None:
        self.backend = LocalBackend(folder, grid(2, 2, 4), grace_s=0.2)
        self.store = open_store(f"sqlite:///{folder}/dally.db")
        clock = WallClock(time.time())
        setup = Setup(policy="dally", network="slow", preempt={"usual": "no"})

        def begin() -> Scheduler:
            scheduler = Scheduler(self.backend, self.backend.topology(), setup, self.store, clock)
            scheduler.progress = ProgressReader(every_s=0.2)
            return scheduler

        self.daemon = Daemon(self.backend, begin)
        self.daemon.run_cycle()

    @property
    def scheduler(self) -> Scheduler:
        assert self.daemon.scheduler is not None
        return self.daemon.scheduler

    def submit(self, *seconds: float, machine: str = "") -> str:
        """A gang of two machines that takes so long for an exchange on one rack and on two; or a job of one."""
        if machine:
            return self.backend.submit(Submission(JobSpec(4, include=machine), ("sleep", "600")))
        spec = JobSpec(8, name="train")
        return self.backend.submit(Submission(spec, tuple(training_loop.command(*seconds))))

    def placement(self, job_id: str) -> set[str]:
        self.daemon.run_cycle()
        jobs = {job.job_id: job for job in self.backend.snapshot().jobs}
        return set(jobs[job_id].placement) if jobs[job_id].state == base.RUNNING else set()

    def slowdown_apart(self, job_id: str) -> float:
        """What the scheduler believes of the job: its slowdown across racks, against the best."""
        self.daemon.run_cycle()
        speed, job = self.scheduler.state.speed, self.scheduler.roster.jobs[job_id]
        return speed.slowdown(job, APART)[0] / speed.best(job)

    def measured(self, job_id: str) -> bool:
        self.daemon.run_cycle()
        followed = self.scheduler.progress._followed.get(job_id)
        return followed is not None and followed.measured_s > 0.0

    def end(self, job_id: str) -> None:
        self.backend.cancel_job(job_id)
        wait_for(lambda: job_id not in self._known(), 20.0)

    def _known(self) -> set[str]:
        self.daemon.run_cycle()
        return set(self.scheduler.roster.jobs)

    def accept_any_place(self, job_id: str) -> None:
        """As by an operator's override."""
        now = self.scheduler.clock.now()
        self.daemon.run_cycle()
        self.scheduler.state.override(self.scheduler.roster.jobs[job_id], False, now, now)

    def close(self) -> None:
        for job_id in list(self.scheduler.roster.jobs):
            self.backend.cancel_job(job_id)
        for _ in range(30):
            self.backend.snapshot()
            time.sleep(0.05)
        self.backend.close()
        self.store.close()


@pytest.mark.parametrize("sensitive", [True, False])
def test_printed_steps_teach_the_scheduler_whether_to_keep_a_job_together(tmp_path: Path, sensitive: bool) -> None:
    site = Site(tmp_path)
    times = (STEP_S, 3.0 * STEP_S if sensitive else STEP_S)
    try:
        first = site.submit(*times)
        before = site.slowdown_apart(first)
        wait_for(lambda: site.measured(first), 40.0)
        assert len({name.rpartition("-")[0] for name in site.placement(first)}) == 1
        site.end(first)
        names = site.backend.topology().names[0]
        blockers = [site.submit(machine=names[machine]) for machine in (0, 2)]
        wait_for(lambda: all(site.placement(job_id) for job_id in blockers), 20.0)
        second = site.submit(*times)
        site.accept_any_place(second)
        wait_for(lambda: site.placement(second) == {names[1], names[3]}, 20.0)
        wait_for(lambda: site.measured(second), 40.0)
        site.end(second)
        third = site.submit(*times)
        if not sensitive:
            assert site.slowdown_apart(third) < before
            return
        assert site.slowdown_apart(third) > before + 0.2
        assert not site.placement(third)  # though two machines are free
        site.end(blockers[0])
        wait_for(lambda: site.placement(third) == {names[0], names[1]}, 20.0)
    finally:
        site.close()
