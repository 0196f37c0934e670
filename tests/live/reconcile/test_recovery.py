"""A restart on a smaller cluster: jobs that no longer fit are left out, and nothing of them stays behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from dally.cluster.topology import Topology, grid
from dally.live.backends import base
from dally.live.cycle import Scheduler
from dally.live.overrides import FIRST, HOLD, Override
from dally.live.store.schema import JOBS
from dally.testing.fake_backend import FakeBackend, FakeClock
from tests.live.test_cycle import Bench, events, say

LARGE, SMALL = grid(2, 2, 8), grid(1, 2, 8)


class Shrinking(Bench):
    """A daemon that is told which part of the cluster is its own."""

    part: Topology = LARGE

    def _begin(self) -> Scheduler:
        return Scheduler(self.backend, self.part, self.setup, self.store, FakeClock(self.backend), self.dry_run)

    def restart(self, part: Topology) -> None:
        self.part = part
        self.die()
        self.go_on(10.0)

    def rows(self) -> list[tuple[str, int, str, str]]:
        return [
            (row["job_id"], row["observed"]["spec"]["gpus"], row["status"], row["outcome"])
            for row in self.store.rows(select(JOBS).order_by(JOBS.c.number))
        ]


@pytest.fixture
def bench(tmp_path: Path) -> Shrinking:
    return Shrinking(tmp_path, FakeBackend(2, 2, 8), "fifo")


def test_one_that_ends_meanwhile_has_ended(bench: Shrinking) -> None:
    jobs = {"ran": bench.submit(24, 300.0), "forgotten": bench.submit(20, 50.0), "waited": bench.submit(18, 50.0)}
    bench.go_on(100.0)
    overrides = bench.scheduler.overrides
    for job_id in jobs.values():
        overrides = overrides.with_override(FIRST, job_id, Override("ann", "", 0.0))
    say(bench, overrides.with_override(HOLD, jobs["waited"], Override("ann", "", 0.0)))
    bench.restart(SMALL)
    assert {row[2] for row in bench.rows()} == {"running", "waiting"}, "they may come back"
    assert bench.books() == {}
    bench.backend.forget(jobs["forgotten"])
    bench.backend.cancel_job(jobs["waited"])
    bench.go_on(300.0)
    assert bench.rows() == [
        (jobs["ran"], 24, "finished", base.FINISHED),
        (jobs["forgotten"], 20, "cancelled", "unknown"),
        (jobs["waited"], 18, "cancelled", base.CANCELLED),
    ]
    ran: dict[str, Any] = bench.store.rows(select(JOBS).where(JOBS.c.job_id == jobs["ran"]))[0]
    assert ran["clocks"]["held_s"] == pytest.approx(300.0, abs=5.0)
    assert [row["kind"] for row in events(bench.store) if row["job_id"] == jobs["ran"]][-1] == "finish"
    assert not any(bench.scheduler.overrides.by_kind.values())
    bench.restart(LARGE)
    assert bench.books() == {}


def test_one_that_comes_back_smaller_is_one_job(bench: Shrinking) -> None:
    job = bench.submit(24, 300.0)
    bench.go_on(20.0)
    say(bench, bench.scheduler.overrides.with_override(FIRST, job, Override("ann", "", 0.0)))
    bench.restart(SMALL)
    bench.backend.requeue(job)
    bench.backend.resize(job, 8)
    bench.go_on(10.0)
    assert bench.rows() == [(job, 24, "cancelled", "replaced"), (job, 8, "running", "")]
    assert bench.scheduler.overrides.author(FIRST, job) == "ann", "it goes on"
    bench.restart(LARGE)
    assert int(bench.scheduler.state.cluster.free_gpus) == 24


def test_of_several_rows_the_newest_counts(bench: Shrinking) -> None:
    """As stores have them that were written before rows were ended."""
    job = bench.submit(8, 300.0)
    bench.go_on(20.0)
    (row,) = bench.store.live_jobs()
    with bench.store.transaction() as connection:
        bench.store.write_jobs(connection, [{**row, "number": row["number"] + 1}])
    bench.restart(LARGE)
    assert int(bench.scheduler.state.cluster.free_gpus) == 24
    assert bench.rows() == [(job, 8, "cancelled", "replaced"), (job, 8, "running", "")]


def test_jobs_of_others_take_what_they_have_of_our_machines(bench: Shrinking) -> None:
    """Whether they are larger than our part of the cluster, lie partly outside it, or wholly."""
    across, beside, outside = (bench.submit(gpus, 300.0) for gpus in (24, 8, 8))
    for job_id in (across, beside, outside):
        bench.backend.jobs[job_id] = replace(bench.backend.jobs[job_id], managed=False)
        bench.backend.hold(job_id)
    bench.restart(SMALL)
    bench.backend.put(across, {"rack0-m0": 6, "rack1-m0": 4, "rack1-m1": 6})
    bench.backend.put(beside, {"rack0-m0": 2, "rack0-m1": 4, "rack1-m1": 2})
    bench.backend.put(outside, {"rack1-m0": 4})
    ours = bench.submit(4, 30.0)
    bench.go_on(10.0)
    assert int(bench.scheduler.state.cluster.free_gpus) == 0
    assert bench.backend.starts == [(ours, {"rack0-m1": 4})]
    assert bench.books() == dict.fromkeys((across, beside, ours), "running")
    bench.restart(SMALL)
    assert bench.books() == dict.fromkeys((across, beside, ours), "running")
    bench.go_on(400.0)
    assert bench.books() == {}


def test_a_machine_that_nobody_tells_of_is_down(bench: Shrinking) -> None:
    jobs = [bench.submit(8, 300.0) for _ in range(4)]
    bench.go_on(10.0)
    bench.backend.gone |= set(bench.backend.jobs[jobs[1]].placement)
    bench.backend.requeue(jobs[1])
    bench.go_on(20.0)
    assert bench.books()[jobs[1]] == "waiting"
    assert int(bench.scheduler.state.cluster.free_gpus) == 0
    assert len(bench.backend.starts) == 4, "nobody is sent there"
    bench.backend.gone.clear()
    bench.go_on(20.0)
    assert bench.states()[jobs[1]] == base.RUNNING


def test_a_machine_has_fewer_gpus_than_before(bench: Shrinking) -> None:
    job = bench.submit(8, 300.0)
    bench.go_on(10.0)
    bench.restart(grid(2, 2, 4))
    assert bench.backend.jobs[job].state in (base.RUNNING, base.STOPPING)
    assert int(bench.scheduler.state.cluster.free_gpus) <= 16


def test_what_was_wanted_of_one_is_wanted_no_more(bench: Shrinking) -> None:
    job = bench.submit(24, 300.0)
    bench.scheduler.decide(bench.backend.snapshot())  # and dies before it acts
    assert [wanted.job_id for wanted in bench.store.pending_orders()] == [job]
    bench.restart(SMALL)
    assert bench.store.pending_orders() == []
    bench.restart(LARGE)
    assert bench.states() == {job: base.RUNNING}
