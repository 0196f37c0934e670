"""Random sequences of observations, answers, crashes and restarts: nothing is booked twice, lost or left behind."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dally.live.backends import base
from dally.live.overrides import HOLD, Override, Overrides
from dally.live.reconcile.pending import BLOCKED, RUN, START
from dally.testing.fake_backend import FakeBackend
from tests.live.test_cycle import Bench, events, say

QUIET_S = 25.0  # longer than a request that was taken is waited for
STEPS = st.lists(
    st.tuples(
        st.sampled_from((
            "submit", "submit", "submit", "cycle", "cycle", "crash", "die sending", "refuse all", "refuse start",
            "refuse stop", "block", "blocked", "hold", "release", "override", "cancel", "requeue", "put", "end",
            "machine", "time",
        )),
        st.integers(0, 15),
    ),
    min_size=5, max_size=60,
)  # fmt: skip


class World(Bench):
    """A bench that can be treated badly."""

    def do(self, what: str, number: int) -> None:
        """One step."""
        backend = self.backend
        backend.now_s += 3.0
        names = backend.topology().names[0]
        job_id = sorted(backend.jobs)[number % len(backend.jobs)] if backend.jobs else ""
        state = backend.jobs[job_id].state if job_id else ""
        if what == "submit":
            self.submit((1, 2, 3, 4, 8, 12)[number % 6], (20.0, 300.0, 900.0)[number % 3])
        elif what == "crash":
            self.scheduler.decide(backend.snapshot())
            self.restart()
        elif what == "die sending":
            backend.orders_left = number % 3
            with suppress(KeyboardInterrupt):
                self.scheduler.run_cycle()
            backend.orders_left = -1
            self.restart()
        elif what == "refuse all":
            self._refuse_all()
        elif what == "refuse start":
            backend.refusing ^= {job_id}
        elif what == "refuse stop":
            backend.unstoppable ^= {job_id}
        elif what == "block" and job_id:
            if backend.blocking.pop(job_id, None) is None:
                backend.blocking[job_id] = "limit"
        elif what == "blocked" and state == base.QUEUED:
            backend.block(job_id, "reservation")
        elif what == "hold" and state == base.QUEUED:
            backend.hold(job_id)
        elif what == "release" and state in (base.HELD, base.BLOCKED):
            backend.release(job_id)
        elif what == "override" and job_id in self.scheduler.roster.jobs:
            overrides = self.scheduler.overrides
            held = job_id in overrides.of(HOLD)
            mine = Override("ann", "", backend.now_s)
            say(self, overrides.without(HOLD, job_id) if held else overrides.with_override(HOLD, job_id, mine))
        elif what == "cancel" and state not in ("", *base.ENDED):
            backend.cancel_job(job_id)
        elif what == "requeue" and state == base.RUNNING:
            backend.requeue(job_id)
        elif what == "put" and state == base.QUEUED:
            place = next(
                (name for name, gpus in backend.free().items() if gpus >= backend.jobs[job_id].spec.gpus), ""
            )
            if place:
                backend.put(job_id, {place: backend.jobs[job_id].spec.gpus})
        elif what == "end":
            backend.ending |= {job_id}
        elif what == "machine":
            backend.set_machine(names[number % len(names)], (base.UP, base.DOWN, base.DRAINING)[number % 3])
        elif what == "time":
            backend.now_s += 60.0 * number
        if what not in ("crash", "die sending", "refuse all"):
            self.cycle()
        self.agree_with_store()

    def _refuse_all(self) -> None:
        """Every order of this cycle is refused."""
        refusing, unstoppable = set(self.backend.refusing), set(self.backend.unstoppable)
        self.backend.refusing |= set(self.backend.jobs)
        self.backend.unstoppable |= set(self.backend.jobs)
        self.cycle()
        self.backend.refusing, self.backend.unstoppable = refusing, unstoppable

    def restart(self) -> None:
        """Only what is in the store and in the backend survives."""
        self.scheduler = self._begin()

    def agree_with_store(self) -> None:
        """What is pending is on the disk, all of it."""
        assert {one.job_id: one for one in self.store.pending_orders()} == self.scheduler.roster.orders

    def free_in_books(self) -> dict[str, int]:
        """GPUs by machine."""
        cluster = self.scheduler.state.cluster
        return dict(zip(self.backend.topology().names[0], map(int, cluster.free[0]), strict=True))

    def calm(self) -> None:
        """Nothing is refused, blocked or held any more, and all machines are up."""
        backend = self.backend
        backend.refusing, backend.unstoppable, backend.ending = set(), set(), set()
        backend.blocking = {}
        for name in backend.topology().names[0]:
            backend.set_machine(name, base.UP)
        for job in list(backend.jobs.values()):
            if job.state in (base.HELD, base.BLOCKED):
                backend.release(job.job_id)
        say(self, Overrides())


class LateBackend:
    """The fake, as it was when the cycle began; jobs end right after that."""

    def __init__(self, backend: FakeBackend, first: base.Observed) -> None:
        self._backend = backend
        self._first: list[base.Observed] = [first]

    def snapshot(self) -> base.Observed:
        """The first time, how things were."""
        if self._first:
            return self._first.pop()
        self._backend.now_s += 100.0
        return self._backend.snapshot()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from(("fifo", "srtf", "dally")))
def test_whatever_happens(steps: list[tuple[str, int]], policy: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), FakeBackend(2, 2, 4), policy)
        try:
            for what, number in steps:
                world.do(what, number)
            world.calm()
            for _ in range(2):
                world.backend.now_s += QUIET_S
                world.cycle()
            check_agreement(world)
            until_all_end(world)
            assert set(world.states().values()) <= base.ENDED
            assert world.books() == {}
            assert world.store.live_jobs() == []
            assert world.store.pending_orders() == []
            assert world.backend.free() == world.free_in_books()
        finally:
            world.store.close()


def until_all_end(world: World) -> None:
    """Cycles of a minute; 40 jobs of 900 s one after the other would take no more."""
    for _ in range(700):
        if set(world.states().values()) <= base.ENDED and not world.books():
            return
        world.go_on(60.0, 60.0)


def check_agreement(world: World) -> None:
    """Books, store and cluster have the same jobs on the same GPUs."""
    placements = {job.job_id: job.placement for job in world.backend.jobs.values() if job.placement}
    assert {row["job_id"]: row["placement"] for row in world.store.live_jobs() if row["placement"]} == placements
    assert world.backend.free() == world.free_in_books()
    world.agree()


def test_a_gang_just_started_is_left_running_after_a_restart(tmp_path: Path) -> None:
    """It runs where the backend saw fit: the daemon knows that it had sent it, and follows."""
    bench = Bench(tmp_path, FakeBackend(1, 2, 8), "fifo")
    job = bench.submit(8, 500.0)
    bench.cycle()
    (place,) = bench.backend.jobs[job].placement
    other = next(name for name in bench.backend.topology().names[0] if name != place)
    bench.backend.put(job, {other: 8})
    order = bench.store.pending_orders()[0]
    assert (order.desired, order.request, order.attempts, order.answer) == (RUN, START, 1, "")
    bench.die()
    bench.go_on(50.0)
    assert bench.backend.preempts == []
    assert bench.books() == {job: "running"}


def test_a_job_that_ended_is_not_preempted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 1, 8), "srtf")
    long = bench.submit(8, 100.0)
    bench.cycle()
    bench.backend.now_s += 30.0
    bench.submit(8, 5.0)
    observed = bench.backend.snapshot()
    bench.scheduler.backend = cast(FakeBackend, LateBackend(bench.backend, observed))
    bench.scheduler.run_cycle()
    assert bench.backend.preempts == []
    bench.scheduler.backend = bench.backend
    bench.go_on(50.0)
    assert bench.states() == dict.fromkeys(("1", "2"), base.FINISHED)
    assert [job_id for job_id, _ in bench.backend.starts].count(long) == 1


def test_a_job_that_ends_as_it_is_preempted_is_not_started_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 1, 8), "srtf")
    long = bench.submit(8, 5000.0)
    bench.cycle()
    bench.backend.ending.add(long)
    short = bench.submit(8, 20.0)
    bench.go_on(100.0)
    assert (bench.states(), bench.backend.preempts) == (dict.fromkeys((long, short), base.FINISHED), [long])
    assert [job_id for job_id, _ in bench.backend.starts] == [long, short]


def test_a_blocked_job_books_nothing_and_holds_nobody_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeBackend(1, 1, 8), "fifo")
    bench.backend.blocking["1"] = "QOSMaxGRESPerUser"
    blocked, other = bench.submit(8, 100.0, "ann"), bench.submit(8, 5000.0, "bob")
    bench.go_on(10.0)
    assert bench.books() == {blocked: "held", other: "running"}
    assert bench.backend.preempts == [blocked], "called back, or it would start whenever the rule allows"
    assert bench.scheduler.roster.blocked_by(blocked) == "QOSMaxGRESPerUser"
    bench.die()
    bench.go_on(10.0)
    assert bench.scheduler.roster.orders[blocked].desired == BLOCKED
    assert bench.states()[blocked] == base.QUEUED
    assert bench.scheduler.roster.blocked_by(blocked) == "QOSMaxGRESPerUser", (
        "also when the backend no longer says it"
    )
    bench.backend.blocking.clear()
    bench.backend.cancel_job(other)
    bench.go_on(200.0)
    assert bench.states() == {blocked: base.FINISHED, other: base.CANCELLED}
    failed = [row["reason"] for row in events(bench.store) if row["kind"] == "start_failed"]
    assert failed == ["QOSMaxGRESPerUser"]
