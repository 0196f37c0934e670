"""GPUs that the books have as free and that are not to be had: of machines that drain, of gangs that lost one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from dally.cluster.topology import Machine, Topology
from dally.live.backends import base
from dally.live.forecast.estimator import Effort, Estimator
from dally.live.forecast.outlook import content_of
from dally.live.store.schema import EVENTS
from dally.testing.fake_backend import FakeBackend
from tests.live.test_cycle import Bench

TYPES = Topology(
    ["machine", "network"], [Machine((), f"m{number}", 8, "A100" if number < 2 else "V100") for number in range(4)]
)


class TypedBackend(FakeBackend):
    """Two machines of each of two types."""

    def __init__(self) -> None:
        super().__init__(1, 4, 8)
        self._topology = TYPES
        self._machines = {name: base.ObservedMachine(name, 8) for name in TYPES.names[0]}


@pytest.mark.parametrize("backend", [TypedBackend, lambda: FakeBackend(1, 4, 8)])
def test_under_queues(tmp_path: Path, backend: type[FakeBackend]) -> None:
    queues = tmp_path / "queues.toml"
    queues.write_text('[queues.a]\nmatch = {user = ["ann"]}\n[queues.b]\ndefault = true\n')
    bench = Bench(tmp_path, backend(), "fifo-backfill", queues=str(queues))
    first = bench.submit(4, 2000.0, "ann")
    bench.go_on(10.0)
    (machine,) = bench.backend.jobs[first].placement
    bench.backend.drain(machine, "fans")
    for user in ("ann", "bob", "bob", "ann", "bob", "ann", "bob"):
        bench.submit(4, 2000.0, user)
    bench.go_on(60.0)
    assert bench.backend.held()[machine] == 4
    assert not [row for row in bench.store.rows(select(EVENTS)) if row["kind"] == "start_failed"]
    assert base.QUEUED in bench.states().values()
    bench.backend.resume(machine)
    bench.go_on(10.0)
    assert bench.backend.held()[machine] == 8
    bench.backend.drain(machine, "fans again")
    for job_id, job in list(bench.backend.jobs.items()):
        if machine in job.placement or not job.placement:
            bench.backend.cancel_job(job_id)
    bench.go_on(10.0)
    assert bench.scheduler.state.cluster.down[bench.scheduler.roster.machines[machine]]  # empty: out of the books
    bench.backend.resume(machine)
    again = bench.submit(8, 50.0, "bob")
    bench.go_on(20.0)
    assert bench.backend.jobs[again].placement == {machine: 8}
    bench.agree()


@pytest.mark.parametrize("backend", [TypedBackend, lambda: FakeBackend(1, 4, 8)])
def test_a_gang_that_lost_a_machine_holds_the_others(tmp_path: Path, backend: type[FakeBackend]) -> None:
    queues = tmp_path / "queues.toml"
    queues.write_text('[queues.a]\nmatch = {user = ["ann"]}\n[queues.b]\ndefault = true\n')
    bench = Bench(tmp_path, backend(), "fifo-backfill", queues=str(queues))
    gang, beside = bench.submit(16, 5000.0), bench.submit(16, 5000.0)
    lost, left, *others = bench.backend.topology().names[0]
    bench.backend.put(gang, {lost: 8, left: 8})
    bench.backend.put(beside, dict.fromkeys(others, 8))
    bench.go_on(10.0)
    bench.agree()
    bench.backend.lose(lost)
    other = bench.submit(8, 100.0, "ann")
    bench.go_on(400.0)
    assert bench.books() == {gang: "waiting", beside: "running", other: "waiting"}
    assert not [row for row in bench.store.rows(select(EVENTS)) if row["kind"] == "start_failed"]
    bench.backend.requeue(gang)
    bench.go_on(10.0)
    assert bench.states() == {gang: base.QUEUED, beside: base.RUNNING, other: base.RUNNING}
    assert bench.backend.jobs[other].placement == {left: 8}
    bench.agree()


def test_what_drains_takes_no_other_job_in_futures(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), "fifo")
    first, long = bench.submit(4, 500.0), bench.submit(8, 2000.0)
    bench.go_on(10.0)
    (machine,) = bench.backend.jobs[first].placement
    bench.backend.drain(machine, "fans")
    waits = bench.submit(4, 100.0)
    bench.go_on(10.0)
    assert _starts_s(bench, waits) == pytest.approx(2000.0, abs=10.0)
    bench.go_on(600.0)
    assert bench.books() == {long: "running", waits: "waiting"}
    assert not [row for row in bench.store.rows(select(EVENTS)) if row["kind"] == "start_failed"]


def test_what_a_broken_gang_holds_is_to_be_had_in_futures(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), "fifo-backfill")
    gang = bench.submit(16, 500.0)
    bench.go_on(10.0)
    bench.backend.lose(next(iter(bench.backend.jobs[gang].placement)))
    waits = bench.submit(4, 100.0)
    bench.go_on(10.0)
    assert bench.books() == {gang: "waiting", waits: "waiting"}
    assert _starts_s(bench, waits) == bench.backend.now_s


def _starts_s(bench: Bench, job_id: str) -> float:
    number = int(bench.scheduler.roster.jobs[job_id].index)
    fates = Estimator().fates(content_of(bench.scheduler), [number], Effort(fewest=1, most=1))
    return fates[number].start_s(0.5)


@pytest.mark.parametrize("policy", ["gavel", "dally", "tiresias", "dally-paper", "srtf"])
def test_of_several_types(tmp_path: Path, policy: str) -> None:
    bench = Bench(tmp_path, TypedBackend(), policy)
    first = bench.submit(4, 500.0)
    bench.go_on(10.0)
    (machine,) = bench.backend.jobs[first].placement
    bench.backend.drain(machine, "fans")
    late = [bench.submit(gpus, 2000.0) for gpus in (8, 8, 4, 8)]
    for _ in range(10):
        bench.go_on(100.0)
        for job_id in [job_id for job_id in late if bench.states()[job_id] == base.QUEUED]:
            assert _starts_s(bench, job_id) > bench.backend.now_s
    assert bench.backend.held()[machine] == 0


def test_a_gang_that_runs_on_with_fewer_gpus_than_it_asks_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), "fifo")
    gang, other = bench.submit(16, 5000.0), bench.submit(8, 100.0)
    bench.go_on(10.0)
    left, lost = bench.backend.jobs[gang].placement
    bench.backend.lose(lost)
    bench.backend.put(gang, {left: 8})
    bench.go_on(300.0)
    assert bench.books() == {gang: "waiting", other: "waiting"}


def test_a_gpu_that_failed(tmp_path: Path) -> None:
    """The seven others of its machine are given out, and no job is stopped for it."""
    backend = FakeBackend(1, 2, 8)
    bench = Bench(tmp_path, backend, "fifo-backfill")
    first = sorted(backend._machines)[0]
    backend._machines[first] = base.ObservedMachine(first, 7, reason="7 of its 8 GPUs can be given")
    jobs = [bench.submit(4, 2000.0, "ann") for _ in range(4)]
    bench.submit(1, 2000.0, "bob")
    bench.go_on(20.0)
    held = bench.backend.held()
    assert (held[first], sum(held.values())) == (5, 13)
    assert [bench.states()[job] for job in jobs].count(base.QUEUED) == 1
    assert not [row for row in bench.store.rows(select(EVENTS)) if row["kind"] == "start_failed"]


def test_a_job_that_nothing_can_take_any_more_is_said_once(tmp_path: Path) -> None:
    """It was released and held again in every cycle, with two lines in the log each."""
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), "fifo")
    bench.submit(16, 500.0)
    waits = bench.submit(8, 50.0)
    bench.go_on(10.0)
    job = bench.backend.jobs[waits]
    bench.backend.jobs[waits] = replace(job, spec=replace(job.spec, include="n99"))
    bench.go_on(10.0)
    bench.backend.hold(waits)
    bench.go_on(10.0)
    bench.backend.release(waits)
    before = bench.store.rows(select(EVENTS))
    bench.go_on(30.0)
    assert bench.store.rows(select(EVENTS)) == before
    bench.backend.jobs[waits] = job
    bench.go_on(600.0)
    assert bench.states()[waits] == base.FINISHED
