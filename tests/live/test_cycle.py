"""The live scheduler on a backend in memory: whatever the backend says, the books follow, and nothing is lost."""

from __future__ import annotations

import gc
import random
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import BackendError, Submission
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.history.recorded_trace import history_csv
from dally.live.overrides import FACT, OF_JOBS, Override, Overrides
from dally.live.store import Store, open_store
from dally.live.store.log_rows import act_row
from dally.live.store.schema import EVENTS
from dally.model import RUNNING, STATUS_NAMES
from dally.testing.fake_backend import FakeBackend, FakeClock
from dally.traces import read_history, read_trace


class Bench:
    """A scheduler on a fake cluster that can die and come back."""

    def __init__(
        self, folder: Path, backend: FakeBackend, policy: str = "dally", dry_run: bool = False, queues: str = ""
    ) -> None:
        self.dry_run = dry_run
        self.backend = backend
        self.setup = Setup(policy, queues=queues, preempt={"usual": "yes"})  # jobs of the fake keep their work
        self.address = f"sqlite:///{folder}/store.db"
        self.store = open_store(self.address)
        self.scheduler = self._begin()

    def _begin(self) -> Scheduler:
        clock = FakeClock(self.backend)
        return Scheduler(self.backend, self.backend.topology(), self.setup, self.store, clock, self.dry_run)

    def die(self) -> None:
        """Only what is in the store and in the backend survives."""
        self.store.close()
        self.store = open_store(self.address)
        self.scheduler = self._begin()

    def submit(self, gpus: int, seconds: float, user: str = "") -> str:
        return self.backend.submit(Submission(JobSpec(gpus, user=user, duration_s=seconds)))

    def go_on(self, seconds: float, step_s: float = 5.0) -> None:
        for _ in range(round(seconds / step_s)):
            self.backend.now_s += step_s
            self.cycle()

    def cycle(self) -> list[str]:
        problems = self.scheduler.run_cycle().problems
        self.check()
        return problems

    def check(self) -> None:
        """No GPU twice, and no job in two places."""
        capacity = dict(zip(self.backend.topology().names[0], self.backend.topology().gpus[0], strict=True))
        assert all(gpus <= capacity[name] for name, gpus in self.backend.held().items())
        assert int(self.scheduler.state.cluster.free_gpus) >= 0

    def states(self) -> dict[str, str]:
        return {job_id: job.state for job_id, job in self.backend.jobs.items()}

    def books(self) -> dict[str, str]:
        return {job.job_id: STATUS_NAMES[job.status] for job in self.scheduler.roster}

    def agree(self) -> None:
        """The books are the backend's truth."""
        for job in self.scheduler.roster:
            told = self.backend.jobs[job.job_id]
            assert (job.status == RUNNING) == (told.state == base.RUNNING), (job, told)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, FakeBackend())


def test_jobs_run_to_their_ends(bench: Bench) -> None:
    for gpus in (8, 16, 4, 32, 1, 64, 12):
        bench.submit(gpus, 60.0)
    bench.go_on(600.0)
    assert set(bench.states().values()) == {base.FINISHED}
    assert len(bench.backend.starts) == 7  # each once
    assert bench.books() == {}


def test_a_start_waits_until_the_preempted_job_has_left(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 1, 8, stop_s=12.0), "srtf")
    long = bench.submit(8, 5000.0)
    bench.go_on(10.0)
    short = bench.submit(8, 20.0)
    bench.go_on(5.0)
    assert bench.states() == {long: base.STOPPING, short: base.QUEUED}
    bench.go_on(5.0)
    assert bench.states() == {long: base.STOPPING, short: base.QUEUED}  # its GPUs are not free yet
    bench.go_on(15.0)
    assert bench.states()[short] == base.RUNNING
    bench.go_on(60.0)
    assert bench.states() == {long: base.RUNNING, short: base.FINISHED}
    bench.agree()


def test_what_was_decided_and_not_done_is_done_after_a_crash(bench: Bench) -> None:
    job = bench.submit(16, 60.0)
    bench.scheduler.decide(bench.backend.snapshot())  # and dies before it acts
    assert bench.states()[job] == base.QUEUED
    bench.die()
    bench.cycle()
    assert bench.states()[job] == base.RUNNING
    assert len(bench.backend.starts) == 1
    bench.go_on(70.0)
    assert bench.states()[job] == base.FINISHED


def test_what_was_done_and_not_noted_is_found_after_a_crash(bench: Bench) -> None:
    job = bench.submit(16, 600.0)
    bench.scheduler.decide(bench.backend.snapshot())
    bench.backend.start_job(job, bench.scheduler.roster.orders[job].placement or {})
    bench.die()
    bench.go_on(50.0)
    assert len(bench.backend.starts) == 1
    bench.agree()


def test_clocks_survive(bench: Bench) -> None:
    job_id = bench.submit(16, 6000.0)
    bench.go_on(100.0)
    before = bench.scheduler.roster.jobs[job_id]
    placed_s, work_s = before.placed_s, before.done_s(bench.backend.now_s)
    bench.die()
    after = bench.scheduler.roster.jobs[job_id]
    assert (after.placed_s, after.start_s, after.index) == (placed_s, before.start_s, before.index)
    assert after.done_s(bench.backend.now_s) == pytest.approx(work_s)
    assert after.lease_end_s == before.lease_end_s


def test_behind_its_back(bench: Bench) -> None:
    cancelled, requeued, held, moved = (bench.submit(8, 600.0) for _ in range(4))
    bench.go_on(10.0)
    bench.agree()
    bench.backend.cancel_job(cancelled)
    bench.backend.requeue(requeued)
    bench.backend.hold(held)
    elsewhere = next(name for name, gpus in bench.backend.free().items() if gpus == 8)
    bench.backend.requeue(moved)
    bench.backend.put(moved, {elsewhere: 8})
    bench.go_on(5.0)
    bench.agree()
    assert bench.books() == {requeued: "running", held: "held", moved: "running"}
    bench.backend.release(held)
    bench.go_on(700.0)
    assert bench.states() == {cancelled: base.CANCELLED, **dict.fromkeys((requeued, held, moved), base.FINISHED)}


def test_a_job_that_asks_for_other_gpus_is_one_job_after_a_crash_too(bench: Bench) -> None:
    first, job_id = bench.submit(64, 60.0), bench.submit(128, 30.0)
    bench.go_on(10.0)
    bench.backend.resize(job_id, 8)
    bench.go_on(10.0)
    bench.die()
    assert bench.books() == {first: "running", job_id: "running"}
    assert [row["job_id"] for row in bench.store.live_jobs()] == [first, job_id]
    cancels = [row["job_id"] for row in events(bench.store) if row["kind"] == "cancel"]
    assert cancels == [job_id]  # the log names the job that goes on as another
    bench.go_on(120.0)
    assert [(name, sum(placement.values())) for name, placement in bench.backend.starts] == [
        (first, 64),
        (job_id, 8),
    ]


def test_quotas_hold_on_a_live_cluster_and_after_a_crash(tmp_path: Path) -> None:
    queues = tmp_path / "queues.toml"
    queues.write_text(
        '[queues.a]\nguarantee = 8\nmin_runtime = 60\nmatch = {user = ["ann"]}\n'
        "[queues.b]\nlimit = 12\nmin_runtime = 60\ndefault = true\n"
    )
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), "fifo-backfill", queues=str(queues))
    borrowers = [bench.submit(4, 5000.0, "ben") for _ in range(4)]
    bench.go_on(20.0)
    assert sorted(bench.states().values()) == [base.QUEUED, base.RUNNING, base.RUNNING, base.RUNNING]
    bench.die()
    owner = bench.submit(8, 100.0, "ann")
    bench.go_on(30.0)
    assert bench.states()[owner] == base.QUEUED, "b has not run long enough"
    bench.go_on(60.0)
    assert bench.states()[owner] == base.RUNNING
    assert [bench.states()[job] for job in borrowers].count(base.RUNNING) == 2
    bench.go_on(150.0)
    assert [bench.states()[job] for job in borrowers].count(base.RUNNING) == 3, "lent again, up to its limit"


def test_somebody_takes_the_gpus_first(bench: Bench) -> None:
    ours, theirs = bench.submit(8, 600.0), bench.submit(8, 600.0)
    bench.backend.hold(theirs)
    bench.scheduler.decide(bench.backend.snapshot())
    bench.backend.put(theirs, bench.scheduler.roster.orders[ours].placement or {})
    bench.go_on(60.0)
    bench.agree()
    assert bench.books() == {ours: "running", theirs: "running"}


def test_a_machine_goes_down_and_comes_back(bench: Bench) -> None:
    jobs = [bench.submit(8, 300.0) for _ in range(16)]
    bench.go_on(10.0)
    lost = next(iter(bench.backend.jobs[jobs[3]].placement))
    bench.backend.set_machine(lost, base.DOWN)
    bench.go_on(20.0)
    assert bench.books()[jobs[3]] == "waiting"
    bench.agree()
    bench.backend.set_machine(lost, base.UP)
    bench.go_on(20.0)
    assert bench.states()[jobs[3]] == base.RUNNING
    bench.agree()


def test_a_machine_that_drains_gets_no_new_jobs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 2, 8))
    first, second = bench.backend.topology().names[0]
    bench.backend.set_machine(first, base.DRAINING)
    jobs = [bench.submit(8, 30.0) for _ in range(3)]
    bench.go_on(40.0)
    assert {next(iter(placement)) for _, placement in bench.backend.starts} == {second}
    bench.go_on(200.0)
    assert all(bench.states()[job] == base.FINISHED for job in jobs)


@pytest.mark.parametrize("policy", ["srtf", "tiresias", "dally-paper", "dally"])
def test_gpus_that_a_gang_leaves_on_a_draining_machine_are_not_given_out(policy: str, tmp_path: Path) -> None:
    """In the very pass in which it is preempted: a machine that stops answering for a moment costs no start."""
    bench = Bench(tmp_path, FakeBackend(1, 3, 8), policy)
    gang = bench.submit(24, 1e6)
    bench.go_on(20.0)
    closed = bench.backend.topology().names[0][0]
    bench.backend.set_machine(closed, base.DRAINING)
    short = [bench.submit(gpus, 100.0) for gpus in (2, 1, 1, 8, 4)]
    for _ in range(200):
        bench.go_on(60.0, 60.0)
        if gang in bench.backend.preempts:
            break
    bench.go_on(600.0)
    failed = [row for row in bench.store.rows(select(EVENTS)) if row["kind"] == "start_failed"]
    if policy == "dally":  # it plans with all that a gang leaves; who was to start on the closed machine waits
        failed = [row for row in failed if row["reason"] != f"{closed} takes no new jobs"]
    assert failed == []
    assert gang in bench.backend.preempts
    assert all(closed not in placement for job, placement in bench.backend.starts if job in short)


def test_a_start_that_is_refused_is_tried_again_and_others_go_on(bench: Bench) -> None:
    refused, other = bench.submit(8, 100.0), bench.submit(8, 100.0)
    bench.backend.refusing.add(refused)
    problems = [line for _ in range(30) for line in bench.cycle()]
    assert any("cannot be started" in line for line in problems)
    bench.go_on(50.0)
    assert bench.states() == {refused: base.QUEUED, other: base.RUNNING}
    bench.backend.refusing.clear()
    bench.go_on(200.0)
    assert set(bench.states().values()) == {base.FINISHED}


def test_a_backend_that_does_not_answer_changes_nothing(bench: Bench) -> None:
    job = bench.submit(8, 100.0)
    bench.go_on(10.0)
    bench.backend.failing = "slurmctld is down"
    with pytest.raises(BackendError, match="slurmctld is down"):
        bench.cycle()
    bench.backend.failing = ""
    bench.go_on(10.0)
    assert bench.books() == {job: "running"}


@pytest.mark.parametrize("policy", ["dally", "dally-paper", "srtf", "tiresias", "fifo-backfill"])
def test_whatever_happens_no_job_is_lost(policy: str, tmp_path: Path) -> None:
    """Everything at once, drawn at random: crashes between deciding and acting, refusals, users, machines."""
    chance = random.Random(f"{policy}:5")
    backend = FakeBackend(2, 2, 4, stop_s=7.0)
    bench = Bench(tmp_path, backend, policy)
    cancelled: set[str] = set()
    for step in range(400):
        backend.now_s += chance.choice((0.5, 5.0, 40.0))
        if step < 250 and chance.random() < 0.3:
            bench.submit(chance.choice((1, 2, 3, 4, 6, 8, 16)), chance.choice((5.0, 60.0, 400.0)))
        if step < 250 and backend.jobs:
            cancelled |= meddle(chance, bench)
        if step == 250:
            for name in backend.topology().names[0]:
                backend.set_machine(name, base.UP)
            backend.refusing.clear()
            for job_id in [job_id for job_id, state in bench.states().items() if state == base.HELD]:
                backend.release(job_id)
            say(bench, Overrides())
        if chance.random() < 0.1:
            bench.scheduler.decide(backend.snapshot())
            bench.die()
        else:
            bench.cycle()
    bench.go_on(20000.0, 40.0)
    assert {job_id for job_id, state in bench.states().items() if state == base.CANCELLED} == cancelled
    assert set(bench.states().values()) <= {base.FINISHED, base.CANCELLED}
    assert bench.books() == {}
    assert not any(bench.scheduler.overrides.of(kind) for kind in OF_JOBS)


def say(bench: Bench, overrides: Overrides) -> None:
    """These overrides of operators stand from now on."""
    with bench.store.transaction() as connection:
        bench.store.keep(connection, FACT, overrides.plain())
    bench.scheduler.take_note(overrides, act_row(bench.backend.now_s, None, None, ""))


def meddle(chance: random.Random, bench: Bench) -> set[str]:
    """Something that the scheduler did not do; jobs that were cancelled."""
    backend = bench.backend
    job_id = chance.choice(sorted(backend.jobs))
    state = backend.jobs[job_id].state
    what = chance.random()
    if what < 0.03 and state not in base.ENDED:
        backend.cancel_job(job_id)
        return {job_id}
    if what < 0.06 and state == base.RUNNING:
        backend.requeue(job_id)
    elif what < 0.09 and state == base.QUEUED:
        backend.hold(job_id)
    elif what < 0.14 and state == base.HELD:
        backend.release(job_id)
    elif what < 0.17:
        backend.refusing ^= {job_id}
    elif what < 0.22:
        state = chance.choice((base.UP, base.DOWN, base.DRAINING))
        backend.set_machine(chance.choice(backend.topology().names[0]), state)
    elif what < 0.4 and job_id in bench.scheduler.roster.jobs:
        kind, overrides = chance.choice(OF_JOBS), bench.scheduler.overrides
        override = Override("ann", "", backend.now_s, backend.now_s + chance.choice((0.0, 100.0)))
        stood = job_id in overrides.of(kind)
        say(bench, overrides.without(kind, job_id) if stood else overrides.with_override(kind, job_id, override))
    return set()


def test_the_store_tells_what_happened(bench: Bench) -> None:
    job = bench.submit(8, 30.0)
    bench.go_on(60.0)
    assert [row["kind"] for row in events(bench.store) if row["job_id"] == job] == ["submit", "start", "finish"]
    assert bench.store.pending_orders() == []
    assert bench.store.live_jobs() == []


def test_a_dry_run_says_what_it_would_do_and_follows_what_others_do(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), dry_run=True)
    first, second = bench.submit(8, 100.0), bench.submit(16, 100.0)
    bench.go_on(100.0)
    assert bench.backend.starts == []
    would = [(row["job_id"], row["reason"]) for row in events(bench.store) if row["kind"] == "would"]
    assert would[0] == (first, "run on rack0-m0:8")
    assert len(would) == len(set(would))  # said once
    bench.backend.put(second, {"rack0-m0": 8, "rack0-m1": 8})
    bench.go_on(10.0)
    assert bench.books() == {first: "waiting", second: "running"}
    bench.go_on(100.0)
    assert bench.books() == {first: "waiting"}


def test_what_was_seen_is_a_trace(bench: Bench, tmp_path: Path) -> None:
    for gpus in (8, 16, 4):
        bench.submit(gpus, 60.0)
    bench.go_on(100.0)
    path = tmp_path / "history.csv"
    path.write_text(history_csv(bench.store, 0.0, 1000.0))
    jobs = read_trace(path, 128).jobs
    assert [(job.job_id, int(job.gpus), job.duration_s) for job in jobs] == [
        ("1", 8, 60.0),
        ("2", 16, 60.0),
        ("3", 4, 60.0),
    ]
    assert [row.runs for row in read_history(path).rows] == [1, 1, 1]
    with pytest.raises(InputError, match="no job has ended"):
        history_csv(bench.store, 5000.0, 6000.0)


def events(store: Store) -> list[dict[str, object]]:
    from sqlalchemy import select

    from dally.live.store.schema import EVENTS

    return store.rows(select(EVENTS).order_by(EVENTS.c.id))


def test_a_gang_that_runs_where_it_was_put_is_not_found_elsewhere(tmp_path: Path) -> None:
    """However its parts are listed: best fit takes the last rack's few GPUs first, or last."""
    bench = Bench(tmp_path, FakeBackend(4, 4, 8))
    bench.submit(8, 600.0)
    bench.submit(100, 600.0)
    bench.go_on(20.0)
    assert not {"evict", "adopt"} & {str(row["kind"]) for row in events(bench.store)}


def test_turns_in_which_nothing_happens_keep_no_memory(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(2, 4, 8))
    for _ in range(40):
        bench.submit(2, 1e9)
    bench.go_on(100.0)
    before = _blocks()
    bench.go_on(500.0)
    assert _blocks() - before < 1000  # one for each of the 32 that run would make 3,200


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def test_a_dry_run_promises_no_gpu_twice(tmp_path: Path) -> None:
    """Jobs would run as far as there is room: no start takes GPUs in a dry run, and yet they are gone."""
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), "fifo-backfill", dry_run=True)
    jobs = [bench.submit(4, 1000.0) for _ in range(6)]
    bench.go_on(10.0)
    would = {str(row["job_id"]): str(row["reason"]) for row in events(bench.store) if row["kind"] == "would"}
    assert sorted(would) == jobs[:4]
    assert sorted(would.values()) == ["run on rack0-m0:4"] * 2 + ["run on rack0-m1:4"] * 2
    assert bench.books() == dict.fromkeys(jobs, "waiting")
