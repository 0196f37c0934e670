"""Progress, by hand."""

from __future__ import annotations

import pytest

from dally.engine.rates import advance, begin, end, roll_back, save
from dally.job_spec import JobSpec
from dally.model import RUNNING, Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.view import View


def running(rate: float = 1.0, comm_rate: float = 0.0) -> Job:
    job = Job(0, "j", 0.0, 4, 100.0)
    begin(job, 0.0)
    job.status, job.rate, job.comm_rate = RUNNING, rate, comm_rate
    return job


def test_work_and_communication_add_up() -> None:
    job = running(rate=0.5, comm_rate=0.25)
    advance(job, 40.0, 0.0)
    assert (job.work_s, job.compute_s, job.comm_s) == (20.0, 30.0, 10.0)
    job.rate = 1.0
    assert job.expected_finish_s() == 120.0
    assert job.remaining_s(60.0) == 60.0


def test_nothing_moves_while_restarting() -> None:
    job = Job(0, "j", 0.0, 4, 100.0)
    job.restart_due_s = 10.0
    begin(job, 5.0)
    job.status = RUNNING
    advance(job, 12.0, 0.0)
    assert (job.work_s, job.since_s, job.overhead_s, job.overhead_so_far_s(12.0)) == (0.0, 15.0, 10.0, 7.0)
    end(job, 12.0)
    assert (job.held_s, job.overhead_s) == (7.0, 7.0)


@pytest.mark.parametrize(
    ("every", "stop", "rate", "kept", "undone"),
    [
        (10.0, 35.0, 1.0, 30.0, 5.0),  # checkpoints after 10, 20, 30 s of work
        (10.0, 9.0, 1.0, 0.0, 9.0),
        (10.0, 35.0, 0.5, 10.0, 15.0),  # 17.5 s of work done, 10 saved after 20 s
    ],
)
def test_a_failure_undoes_work_since_the_latest_checkpoint(
    every: float, stop: float, rate: float, kept: float, undone: float
) -> None:
    job = running(rate=rate, comm_rate=1.0 - rate)
    advance(job, stop / 2, every)
    advance(job, stop, every)
    roll_back(job)
    assert job.work_s == kept
    assert job.overhead_s == pytest.approx(undone)
    assert job.compute_s + job.comm_s + job.overhead_s == pytest.approx(stop)


def test_a_preemption_saves_everything() -> None:
    job = running()
    advance(job, 17.0, 10.0)
    save(job)
    roll_back(job)
    assert (job.work_s, job.overhead_s) == (17.0, 0.0)


@pytest.mark.parametrize(
    ("own", "usual", "kept", "risk"),
    [(30.0, 0.0, 60.0, 10.0), (30.0, 50.0, 60.0, 10.0), (None, 50.0, 50.0, 20.0), (None, 0.0, 0.0, 0.0)],
)
def test_a_job_may_have_checkpoints_of_its_own(own: float | None, usual: float, kept: float, risk: float) -> None:
    """They count whatever is usual: for what a failure undoes, and for what it would undo."""
    job = Job(0, "j", 0.0, 4, 100.0, spec=JobSpec(4, checkpoint_every_s=own))
    begin(job, 0.0)
    job.status = RUNNING
    assert View(SpeedModel(), Costs(checkpoint_every_s=usual)).at_risk_s(job, 70.0) == risk
    advance(job, 70.0, usual)
    assert job.saved_work_s == kept
