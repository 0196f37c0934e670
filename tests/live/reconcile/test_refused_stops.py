"""Jobs that the backend will not stop, or that are no longer ours to stop: the books have what the backend has."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from dally.live.backends import base
from dally.live.overrides import HOLD, Override
from dally.live.reconcile.orders import requests_due, send
from dally.live.reconcile.unschedulable import NOT_OURS
from dally.model import RUNNING
from dally.testing.fake_backend import FakeBackend
from tests.live.test_cycle import Bench, events, say


def hold(bench: Bench, job_id: str) -> None:
    say(bench, bench.scheduler.overrides.with_override(HOLD, job_id, Override("ann", "", bench.backend.now_s)))


def release(bench: Bench, job_id: str) -> None:
    say(bench, bench.scheduler.overrides.without(HOLD, job_id))


def free_gpus(bench: Bench) -> tuple[dict[str, int], dict[str, int]]:
    """By machine, in the books and at the backend."""
    cluster = bench.scheduler.state.cluster
    names = bench.backend.topology().names[0]
    return dict(zip(names, map(int, cluster.free[0]), strict=True)), bench.backend.free()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """One machine of 8 GPUs."""
    return Bench(tmp_path, FakeBackend(1, 1, 8), "fifo")


def test_a_held_job_has_its_gpus_until_the_backend_stops_it(bench: Bench) -> None:
    kept, other = bench.submit(8, 5000.0), bench.submit(8, 100.0)
    bench.cycle()
    bench.backend.unstoppable.add(kept)
    hold(bench, kept)
    bench.go_on(10.0)
    assert f"preempt of job {kept}: job {kept} stays where it is" in bench.cycle()
    bench.go_on(300.0)
    bench.die()
    bench.go_on(10.0)
    assert bench.books() == {kept: "running", other: "waiting"}
    bench.agree()
    bench.backend.unstoppable.clear()
    bench.go_on(15.0)
    assert bench.books() == {kept: "held", other: "running"}
    assert bench.scheduler.roster.jobs[kept].preemptions == 1


def test_a_job_released_before_it_stopped_runs_on(bench: Bench) -> None:
    job = bench.submit(8, 5000.0)
    bench.cycle()
    bench.backend.unstoppable.add(job)
    hold(bench, job)
    bench.go_on(10.0)
    release(bench, job)
    bench.go_on(5.0)
    bench.backend.unstoppable.clear()
    bench.go_on(100.0)
    assert (bench.books(), len(bench.backend.starts)) == ({job: "running"}, 1)


def test_a_job_that_is_no_longer_ours_is_not_stopped(bench: Bench) -> None:
    """A bare pod is ours while it waits, and would be lost if it were evicted."""
    early, late = bench.submit(4, 5000.0), bench.submit(4, 5000.0)
    bench.scheduler.decide(bench.backend.snapshot())
    hold(bench, early)
    bench.cycle()  # it is about to start, and is called back
    for job_id, place in ((early, "early"), (late, "late")):
        bench.backend.put(job_id, {"rack0-m0": 4})
        job = bench.backend.jobs[job_id]
        bench.backend.jobs[job_id] = replace(job, managed=False, spec=replace(job.spec, name=place))
    hold(bench, late)
    for _ in range(3):
        assert bench.cycle() == [
            f"job {job_id} is on hold and runs on: it is no longer ours to stop" for job_id in (early, late)
        ]
    assert bench.states() == {early: base.RUNNING, late: base.RUNNING}
    assert bench.books() == {early: "running", late: "running"}


def test_a_job_that_stopped_being_ours_while_it_was_told_to_stop_is_left_alone(bench: Bench) -> None:
    job = bench.submit(8, 5000.0)
    bench.cycle()
    bench.backend.unstoppable.add(job)
    hold(bench, job)
    bench.cycle()
    bench.backend.unstoppable.clear()
    bench.backend.jobs[job] = replace(bench.backend.jobs[job], managed=False)
    bench.go_on(50.0)
    assert (bench.states(), bench.books()) == ({job: base.RUNNING}, {job: "running"})


def test_what_a_policy_may_not_stop_is_given_back_and_left_alone_for_a_while(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 1, 8), "srtf")
    long = bench.submit(8, 50_000.0)
    bench.cycle()
    bench.backend.unstoppable.add(long)
    short = bench.submit(8, 20.0)
    bench.go_on(200.0)
    assert bench.books() == {long: "running", short: "waiting"}
    bench.go_on(300.0)
    assert [row["kind"] for row in events(bench.store) if row["job_id"] == long].count("preempt") == 1
    bench.backend.unstoppable.clear()
    bench.go_on(1000.0)
    assert bench.states() == {long: base.RUNNING, short: base.FINISHED}


def test_a_job_that_is_wanted_where_it_runs_is_left_running(bench: Bench) -> None:
    """A policy stops it for another that cannot be placed after all, and puts it back."""
    job = bench.submit(8, 5000.0)
    bench.go_on(10.0)
    bench.scheduler.roster.desire(job, {"rack0-m0": 8}, bench.backend.now_s)
    send(bench.backend, requests_due(bench.scheduler.roster, bench.backend.now_s, 1.0), bench.backend.term)
    bench.go_on(10.0)
    assert (bench.states(), len(bench.backend.starts)) == ({job: base.RUNNING}, 1)


@pytest.mark.parametrize("policy", ["dally", "srtf", "tiresias"])
def test_whatever_is_refused_the_books_come_to_have_what_the_backend_has(policy: str, tmp_path: Path) -> None:
    chance = random.Random(f"{policy}:7")
    backend = FakeBackend(2, 2, 4, stop_s=3.0)
    bench = Bench(tmp_path, backend, policy)
    for _ in range(6):
        for _ in range(60):
            backend.now_s += chance.choice((1.0, 5.0, 30.0))
            meddle(chance, bench)
            bench.cycle()
        bench.die()
        backend.refusing.clear()
        for _ in range(150):
            bench.go_on(5.0)
            if is_settled(bench):
                break
        assert is_settled(bench)
        books, truth = free_gpus(bench)
        assert books == truth


def meddle(chance: random.Random, bench: Bench) -> None:
    """Jobs come, are held and released; starts and stops are refused from now on, or no longer."""
    backend = bench.backend
    if chance.random() < 0.1:
        bench.submit(chance.choice((1, 2, 4, 8)), chance.choice((100.0, 1000.0, 20_000.0)))
    job_id = chance.choice(sorted(backend.jobs) or [""])
    what = chance.random()
    if what < 0.15:
        backend.unstoppable ^= {job_id}
    elif what < 0.25:
        backend.refusing ^= {job_id}
    elif what < 0.35 and job_id in bench.scheduler.roster.jobs:
        (release if job_id in bench.scheduler.overrides.of(HOLD) else hold)(bench, job_id)


def is_settled(bench: Bench) -> bool:
    """Nothing is on its way, but for held jobs that run on."""
    running = {
        job.job_id: bench.backend.jobs[job.job_id] for job in bench.scheduler.roster if job.status == RUNNING
    }
    return all(
        job_id in running
        and running[job_id].state == base.RUNNING
        and wanted.placement in (None, running[job_id].placement)
        for job_id, wanted in bench.scheduler.roster.orders.items()
    )


@pytest.mark.parametrize("policy", ["srtf", "dally"])
@pytest.mark.parametrize("why", ["not ours", "kept", "held", "drained"])
def test_where_one_cannot_be_stopped_another_gives_way(policy: str, why: str, tmp_path: Path) -> None:
    """Policies used to choose the same victim again and again in vain, and the newcomer waited for ever."""
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), policy)
    worst = bench.submit(8, 90_000.0)
    bench.go_on(3000.0, 100.0)
    other = bench.submit(8, 50_000.0)
    bench.go_on(4000.0, 100.0)
    if why == "not ours":
        bench.backend.jobs[worst] = replace(bench.backend.jobs[worst], managed=False)
    elif why == "drained":
        (machine,) = bench.backend.jobs[worst].placement
        bench.backend.drain(machine, "fans")
    elif why == "held":
        bench.backend.unstoppable.add(worst)
        hold(bench, worst)
        bench.cycle()
    else:
        bench.backend.unstoppable.add(worst)
    short = bench.submit(8, 500.0)
    bench.go_on(400.0)
    if why == "not ours":
        bench.die()
    bench.go_on(1400.0)
    assert bench.states() == {worst: base.RUNNING, other: base.RUNNING, short: base.FINISHED}
    stops = [row for row in events(bench.store) if row["kind"] == "preempt"]
    assert {row["job_id"] for row in stops} == ({worst, other} if why == "kept" else {other})
    if why in ("not ours", "drained"):
        assert not [row for row in events(bench.store) if row["kind"] == "preempt_failed"]


def test_what_may_be_stopped_again_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 1, 8), "srtf")
    long = bench.submit(8, 50_000.0)
    bench.cycle()
    bench.backend.jobs[long] = replace(bench.backend.jobs[long], managed=False)
    short = bench.submit(8, 20.0)
    bench.go_on(100.0)
    job = bench.scheduler.roster.jobs[long]
    assert (bench.books(), job.non_preemptible) == ({long: "running", short: "waiting"}, True)
    assert bench.scheduler.roster.non_preemptible == {long: NOT_OURS}
    bench.backend.jobs[long] = replace(bench.backend.jobs[long], managed=True)
    bench.go_on(30.0)
    assert (bench.states()[short], job.non_preemptible) == (base.FINISHED, False)
