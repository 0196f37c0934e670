"""Elastic jobs on a live cluster: they start at any size, are resized under one id, and none is ever lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sqlalchemy import select

from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import BackendError, Submission
from dally.live.backends.local import LocalBackend
from dally.live.store.schema import EVENTS
from dally.testing.fake_backend import FakeBackend
from tests.live.test_cycle import Bench
from tests.live.test_local import command, opened, until

SIZES = "2,4,8"


class Sized(Bench):
    """A scheduler on a fake cluster that starts jobs at any of their sizes."""

    def __init__(self, folder: Path, policy: str = "sia", stop_s: float = 0.0, machines: int = 1) -> None:
        backend = FakeBackend(1, machines, 8, stop_s=stop_s)
        backend.resizes = True
        super().__init__(folder, backend, policy)

    def elastic(self, gpus: int, seconds: float, sizes: str = SIZES) -> str:
        return self.backend.submit(Submission(JobSpec(gpus, duration_s=seconds, sizes=sizes)))

    def sizes(self, job_id: str) -> list[int]:
        """On how many GPUs it was started, one after the other."""
        return [sum(placement.values()) for started, placement in self.backend.starts if started == job_id]

    def size(self, job_id: str) -> int:
        return sum(self.backend.jobs[job_id].placement.values())


def test_a_job_grows_and_gives_way_under_one_id(tmp_path: Path) -> None:
    bench = Sized(tmp_path)
    long = bench.elastic(4, 50_000.0)
    bench.go_on(300.0)
    assert bench.sizes(long) == [2, 4, 8]
    short = bench.submit(4, 100.0)
    bench.go_on(100.0)
    assert (bench.size(long), bench.states()[short]) == (4, base.RUNNING)
    bench.go_on(400.0)
    assert (bench.size(long), bench.states()[short]) == (8, base.FINISHED)
    bench.agree()
    kinds = bench.store.rows(select(EVENTS.c.kind).where(EVENTS.c.job_id == long))
    assert {row["kind"] for row in kinds} >= {"start", "resize"}


def test_a_backend_that_cannot_has_every_job_at_the_size_it_asks_for(tmp_path: Path) -> None:
    bench = Sized(tmp_path)
    bench.backend.resizes = False
    job = bench.elastic(4, 1000.0)
    bench.go_on(300.0)
    assert bench.sizes(job) == [4]


def test_the_next_job_starts_when_the_shrinking_one_has_left(tmp_path: Path) -> None:
    bench = Sized(tmp_path, stop_s=12.0)
    long = bench.elastic(4, 50_000.0)
    bench.go_on(400.0)
    assert bench.size(long) == 8
    short = bench.submit(4, 100.0)
    seen = set()
    for _ in range(30):
        bench.go_on(5.0)
        seen.add((bench.states()[long], bench.states()[short]))
    assert (base.STOPPING, base.QUEUED) in seen
    assert (base.RUNNING, base.RUNNING) in seen


def test_a_resize_that_the_backend_refuses_leaves_the_job_at_its_size(tmp_path: Path) -> None:
    bench = Sized(tmp_path)
    long = bench.elastic(4, 50_000.0)
    bench.go_on(300.0)
    bench.backend.unstoppable.add(long)
    short = bench.submit(4, 100.0)
    bench.go_on(1000.0)
    assert (bench.size(long), bench.states()[short]) == (8, base.QUEUED)
    bench.agree()


def test_one_whose_start_at_the_new_size_is_refused_is_queued_and_runs_again(tmp_path: Path) -> None:
    bench = Sized(tmp_path)
    long = bench.elastic(4, 50_000.0)
    bench.go_on(300.0)
    bench.backend.refusing.add(long)
    bench.submit(4, 100.0)
    bench.go_on(60.0)
    assert bench.states()[long] == base.QUEUED
    bench.backend.refusing.clear()
    bench.go_on(600.0)
    assert bench.states()[long] == base.RUNNING
    bench.agree()


@pytest.mark.parametrize("seed", range(4))
def test_killed_in_the_middle_of_resizes_nothing_is_lost_or_runs_twice(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    bench = Sized(tmp_path, ("sia", "pollux", "dally", "sia")[seed], stop_s=7.0, machines=4)
    for _ in range(40):
        gpus = draw.choice((1, 2, 4, 8))
        bench.elastic(gpus, draw.uniform(50.0, 1500.0), f"{gpus},{2 * gpus}" if gpus < 8 else "4,8,16")
        bench.backend.now_s += draw.uniform(0.0, 20.0)
        bench.backend.orders_left = draw.choice((-1, 0, 1, 2))
        try:
            bench.cycle()
        except KeyboardInterrupt:  # kill -9 between two orders
            bench.backend.orders_left = -1
            bench.die()
    bench.backend.orders_left = -1
    bench.go_on(20_000.0, 20.0)
    assert set(bench.states().values()) == {base.FINISHED}
    resized = [job_id for job_id in bench.backend.jobs if len(set(bench.sizes(job_id))) > 1]
    assert resized or seed == 2, "nobody was ever resized"


def test_a_local_job_knows_its_new_world_size(tmp_path: Path) -> None:
    backend: LocalBackend = opened(tmp_path)
    spec = JobSpec(4, sizes="2,4,8")
    text = "echo $DALLY_GPUS >> sizes; trap 'exit 0' TERM; sleep 60 & wait"
    job = backend.submit(Submission(spec, ("sh", "-c", text), str(tmp_path)))
    for placement in ({"rack0-m0": 4, "rack0-m1": 4}, {"rack0-m0": 2}):
        backend.start_job(job, placement)
        assert until(backend, job, base.RUNNING).placement == placement
        backend.preempt_job(job)
        until(backend, job, base.QUEUED)
    with pytest.raises(BackendError, match="not enough GPUs"):
        backend.start_job(job, {"rack0-m0": 3})
    assert (tmp_path / "sizes").read_text() == "8\n2\n"
    rigid = backend.submit(command("true"))
    with pytest.raises(BackendError, match="not enough GPUs"):
        backend.start_job(rigid, {"rack0-m0": 2})
