"""A backend that forgets ends, as a killed slurmctld does: none of those jobs is run again by our own order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dally.live.backends import base
from dally.live.reconcile.unschedulable import NOT_OURS
from dally.testing.fake_backend import FakeBackend
from tests.live.test_cycle import Bench

PROBLEM = "job 1 had ended (finished), which the backend has forgotten: it is running there, and may run again"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """One machine; `srtf` preempts whatever runs for a job that it takes for shorter."""
    return Bench(tmp_path, FakeBackend(1, 1, 8), "srtf")


def ended(bench: Bench, restarts: int | None = 0) -> str:
    """A job that has run and ended, and that the store knows to have."""
    job = bench.submit(8, 50.0)
    bench.backend.jobs[job] = replace(bench.backend.jobs[job], restarts=restarts)
    bench.go_on(60.0)
    assert bench.states()[job] == base.FINISHED
    assert bench.books() == {}
    return job


def forget(bench: Bench, job: str) -> None:
    """It is as before its end, for 5000 s more."""
    bench.backend.left_s[job] = 5000.0
    bench.backend.put(job, {"rack0-m0": 8})


def test_it_is_not_preempted_and_said(bench: Bench) -> None:
    job = ended(bench)
    forget(bench, job)
    assert bench.cycle() == [PROBLEM]
    bench.submit(8, 10.0)
    bench.go_on(100.0)
    assert bench.backend.preempts == []
    assert bench.states()[job] == base.RUNNING
    assert bench.scheduler.roster.non_preemptible == {job: NOT_OURS}
    bench.agree()


def test_nor_after_a_restart(bench: Bench) -> None:
    job = ended(bench)
    forget(bench, job)
    bench.cycle()
    bench.die()
    bench.submit(8, 10.0)
    assert PROBLEM in bench.cycle()
    bench.go_on(100.0)
    assert bench.backend.preempts == []


def test_once_the_backend_runs_it_again_it_is_a_job_like_any_other(bench: Bench) -> None:
    job = ended(bench)
    forget(bench, job)
    bench.cycle()
    bench.backend.requeue(job)
    bench.backend.jobs[job] = replace(bench.backend.jobs[job], restarts=1)
    assert bench.cycle() == []
    assert bench.states()[job] == base.RUNNING
    other = bench.submit(8, 10.0)
    bench.go_on(10.0)
    assert bench.backend.preempts == [job]
    assert bench.states()[other] == base.RUNNING


def test_a_job_that_was_asked_to_run_again_after_its_end_is_none(bench: Bench) -> None:
    job = ended(bench)
    forget(bench, job)
    bench.backend.jobs[job] = replace(bench.backend.jobs[job], restarts=1)
    assert bench.cycle() == []


def test_another_job_of_the_same_number_is_none(bench: Bench) -> None:
    job = ended(bench)
    forget(bench, job)
    bench.backend.jobs[job] = replace(bench.backend.jobs[job], submit_s=9.0)
    assert bench.cycle() == []


def test_where_restarts_are_not_counted_a_job_that_comes_back_was_sent_back(bench: Bench) -> None:
    job = ended(bench, restarts=None)
    forget(bench, job)
    assert bench.cycle() == []
