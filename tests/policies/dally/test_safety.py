"""No collapse, no starvation, no more churn than allowed, no endless pass."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.engine.executor import Executor
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import FINISHED, HELD, HOLD, RELEASE, WAITING, Action, Costs, Event, Job, Preempt
from dally.perf.base import SpeedModel
from dally.policies.dally.churn import Churn
from dally.policies.dally.limits import Limits
from dally.policies.dally.migration import Losses
from dally.policies.dally.pricing import Prices
from dally.policies.dally.starvation import StarvationBound
from dally.policies.registry import build
from dally.policies.view import View
from dally.testing import check_policy, check_record, record_of
from dally.testing.strategies import Case
from tests.examples import many
from tests.policies.dally.busy import VIEW, Busy
from tests.policies.dally.test_by_hand import GRID, ONE_S, run
from tests.policies.test_view import grid, place

GUARDED = {
    "patience_s": "200",
    "patience": "1",
    "stretch_s": "100",
    "least_hold_s": "20",
    "hold": "0",
    "wake_s": "50",
}
# Nothing else serves a gang before its rank does.
RANKS_ALONE = {"idle_worth": "inf", "finish_gain": "inf", "probe_share": "0"}


def overload(seconds: int) -> list[tuple[float, int, float]]:
    """A 1-GPU job of 80 s every 8 s: on 8 GPUs a quarter more than there is room for."""
    return [(float(at_s), 1, 80.0) for at_s in range(0, seconds, 8)]


@pytest.mark.once
def test_a_wide_gang_is_served_when_its_patience_ends() -> None:
    # Ranks favour the stream of small jobs for ever. The gang's patience ends 3000 s after it came.
    jobs = sorted([*overload(8000), (100.0, 8, 50.0)])
    index = jobs.index((100.0, 8, 50.0))
    abandoned = run(jobs, {"patience_s": "inf"}).jobs[index]
    served = run(jobs, {"patience_s": "3000", "least_hold_s": "0", "hold": "0"}).jobs[index]
    assert abandoned.start_s > 7000.0
    assert (served.start_s, served.finish_s) == (3100.0, 3150.0)


def test_a_job_on_hold_stays_there_when_ranks_change() -> None:
    jobs = [Job(index, f"j{index}", 10.0 * index, 4, 100.0) for index in range(100)]
    simulation = Simulation(jobs, Cluster.grid(1, 1, 8), build("dally", {}), SpeedModel(), Costs(), Failures())
    while simulation.now < 200.0:
        simulation.step()
    held = next(job for job in jobs if job.status == WAITING)
    simulation.happen([Event(HOLD, held)], simulation.now)
    simulation.go_on(2000.0)  # ranks are worked out anew after 600 s
    assert held.status == HELD
    simulation.happen([Event(RELEASE, held)], simulation.now)
    simulation.run()
    assert held.status == FINISHED


class RefusesOnce(Executor):
    """The first preemption after a moment is refused."""

    def __init__(self, after_s: float) -> None:
        self.after_s = after_s

    def apply(self, action: Action, now: float) -> str:
        if not isinstance(action, Preempt) or now < self.after_s:
            return ""
        self.after_s = float("inf")
        return "not now"


def test_a_gang_whose_rescue_was_refused_is_served_next_time() -> None:
    # As above, but the first of eight is not stopped at 3100 s. What was to protect the gang must not keep it out.
    jobs = sorted([*overload(8000), (100.0, 8, 50.0)])
    policy = build("dally", {"patience_s": "3000", "least_hold_s": "0", "hold": "0"})
    simulation = Case(GRID, jobs, costs=ONE_S).simulation(policy)
    refuses = RefusesOnce(3100.0)
    simulation._executor = refuses
    simulation.run(float("inf"))
    assert refuses.after_s == float("inf")
    assert 3100.0 < simulation.jobs[jobs.index((100.0, 8, 50.0))].start_s <= 3110.0


@pytest.mark.once
def test_without_preemption_a_domain_is_kept_until_it_is_empty() -> None:
    # From 3100 s on nobody starts; the last to start before that ends within 80 s.
    jobs = sorted([*overload(8000), (100.0, 8, 50.0)])
    gang = run(jobs, {"patience_s": "3000", "preemption": "off"}).jobs[jobs.index((100.0, 8, 50.0))]
    assert 3100.0 <= gang.start_s <= 3180.0


@pytest.mark.once
@pytest.mark.parametrize("seed", range(5))
def test_in_overload_a_gang_waits_for_its_patience_and_for_what_came_before(seed: int) -> None:
    # 300 small jobs in 3000 s, a third more than 8 GPUs can do. Those who came before the gang run out of
    # patience before it does, those who came later after it: it waits 200 s, and at most until all work that
    # came before is done.
    draw = random.Random(seed)
    gang = (1000.0, draw.randint(4, 8), 60.0)
    stream = [(float(draw.randint(0, 3000)), draw.randint(1, 4), float(draw.randint(1, 80))) for _ in range(300)]
    jobs = sorted([*stream, gang])
    before_s = sum(gpus * lasts_s for at_s, gpus, lasts_s in stream if at_s <= 1000.0) / 8.0
    served, abandoned = (
        run(jobs, {**GUARDED, **RANKS_ALONE, "patience_s": patience_s}).jobs[jobs.index(gang)]
        for patience_s in ("200", "inf")
    )
    assert served.start_s <= 1000.0 + 200.0 + before_s
    assert abandoned.start_s > 3000.0


lasting = st.tuples(st.integers(0, 500).map(float), st.just(8), st.integers(200, 1500).map(float))


@settings(max_examples=many(20))
@given(st.lists(lasting, min_size=2, max_size=4).map(sorted))
def test_nobody_waits_longer_than_the_bound(jobs: list[tuple[float, int, float]]) -> None:
    # Gangs that each take all: one waits 200 s and as long as it has run, and then for a stretch, a hold, a restart
    # and a pass of each other gang, as often as it has had a stretch itself.
    record = run(jobs, {**GUARDED, "reserved": "0"})
    for job in record.jobs:
        waited_s = job.finish_s - job.submit_s - job.run_s
        turns = 1.0 + job.run_s / 100.0
        assert waited_s <= 200.0 + job.run_s + turns * (len(jobs) - 1) * (100.0 + 20.0 + 8.0 + 50.0)


def test_guards_set_tight_keep_the_rules() -> None:
    check_policy(lambda: build("dally", GUARDED), examples=many(60))
    check_policy(
        lambda: build("dally", {"most_prices": "3", "churn": "0.001", "moves_per_h": "1"}), examples=many(60)
    )


def test_patience_counts_all_waits_and_time_with_gpus() -> None:
    patience = StarvationBound(Limits(patience_s=100.0, patience=2.0, stretch_s=10.0, reserved=0.5))
    one, other = Job(0, "a", 0.0, 4, 1.0), Job(1, "b", 20.0, 4, 1.0)
    one.held_s = 30.0  # it may wait 100 + 2 · 30 s of the time it does not hold GPUs: until 0 + 30 + 160
    patience.waits(one)
    patience.waits(other)
    assert patience.next_s() == 120.0
    assert (patience.first(119.0), patience.first(120.0)) == (None, other)
    patience.leaves(other)
    assert patience.next_s() == 190.0
    patience.protect(other, 200.0)
    assert patience.room_for(one, 16, 199.0)
    assert not patience.room_for(one, 15, 199.0), "more than half of the GPUs"
    assert patience.room_for(one, 15, 200.0)


def test_churn_is_a_share_of_gpu_time() -> None:
    churn = Churn(Limits(churn=0.1, churn_window_s=100.0))
    churn.begin_pass(0.0, 8)  # 80 GPU-seconds
    gang = Job(0, "a", 0.0, 8, 1.0)
    churn.spend(gang, 9.0)  # 72
    assert churn.allows()
    churn.spend(gang, 2.0)  # overdrawn by 8
    assert not churn.allows()
    churn.begin_pass(10.0, 8)  # 8 more
    assert not churn.allows()
    churn.begin_pass(11.0, 8)
    assert churn.allows()


def test_without_churn_nobody_is_stopped_or_moved() -> None:
    record = run([(0.0, 8, 10_000.0), (5000.0, 8, 60.0)], {"churn": "0"})
    assert not any(job.preemptions + job.migrations for job in record.jobs)


def test_a_job_moves_only_so_often_an_hour() -> None:
    churn = Churn(Limits(moves_per_h=2))
    job = Job(0, "a", 0.0, 8, 1.0)
    for moved_s in (0.0, 1800.0):
        assert churn.may_move(job, moved_s)
        churn.moved(job, moved_s)
    assert not churn.may_move(job, 3599.0)
    assert churn.may_move(job, 3600.0)
    assert not Churn(Limits(moves_per_h=0)).may_move(job, 0.0)


def test_the_slowdown_of_all_counts_gpus() -> None:
    # Two GPUs across machines run at half speed; four more are busy at full speed: (2 · 2 + 4 · 1) / 6.
    cluster, speed = grid()
    prices = Prices(View(speed, Costs()), Limits())
    losses = Losses(1.02)
    gang = place(speed, 0, [(0, 1), (1, 1)])
    whole = Job(1, "b", 0.0, 4, 1.0)
    for job, parts in ((gang, [(0, 1), (1, 1)]), (whole, [(2, 2), (3, 2)])):
        allocation = Busy(Cluster.grid(2, 2, 2)).run(parts, 0.0).allocation
        assert allocation is not None
        job.allocation = allocation
        cluster.take(job, allocation)
    losses.note(gang, prices)
    running = cluster.topology.total_gpus() - int(cluster.free_gpus)
    assert losses.slower_than(0.99 * 8.0 / 6.0, running)
    assert not losses.slower_than(1.01 * 8.0 / 6.0, running)


def test_beyond_the_limit_nobody_is_scattered() -> None:
    # Two machines with one free GPU each, no network: scattering is free of charge, but not allowed any more.
    machines: list[tuple[tuple[str, ...], int]] = [((), 2), ((), 2)]
    jobs = [(0.0, 1, 1000.0), (0.0, 1, 100.0), (0.0, 1, 1000.0), (0.0, 1, 100.0), (200.0, 2, 50.0)]
    off = {"compaction": "off", "preemption": "off"}
    assert run(jobs, off, machines).jobs[4].start_s == 200.0
    assert run(jobs, {**off, "scatter": "off"}, machines).jobs[4].start_s == 1000.0


def test_a_pass_out_of_budget_still_starts_whom_it_can() -> None:
    assert VIEW.restart_s(Job(0, "a", 0.0, 8, 1.0)) == 13.0
    record = run([(0.0, 2, 100.0)] * 8, {"most_prices": "1"})
    assert sorted(job.start_s for job in record.jobs) == [0.0] * 4 + [100.0] * 4


@pytest.mark.parametrize(("machines", "most"), [(255, 40), (256, 12)])
def test_on_a_large_cluster_a_pass_makes_room_for_a_dozen(machines: int, most: int) -> None:
    """Forty short jobs come at once to a full cluster: each has somebody preempted, a dozen of them a second."""
    old = [Job(index, f"old{index}", 0.0, 1, 20_000.0) for index in range(machines)]
    young = [Job(machines + index, f"young{index}", 10_000.0, 1, 60.0) for index in range(40)]
    cluster = Cluster.grid(1, machines, 1)
    simulation = Simulation([*old, *young], cluster, build("dally", {}), SpeedModel(), Costs(), Failures())
    simulation.run()
    starts = [job.start_s for job in young]
    assert max(starts.count(start_s) for start_s in starts) == most
    assert max(starts) <= 10_000.0 + 40 // most
    assert all(job.status == FINISHED for job in simulation.jobs)
    assert sum(int(job.preemptions) for job in old) == 40


@pytest.mark.once
def test_it_keeps_the_contract_on_a_large_cluster() -> None:
    """More work than there are GPUs, gangs of up to a rack: everybody is served, and nothing is used twice."""
    draw = random.Random(5)
    machines: list[tuple[tuple[str, ...], int]] = [((f"r{number // 32}",), 1) for number in range(256)]
    sizes = [draw.choice([1, 1, 2, 8, 32]) for _ in range(400)]
    jobs = sorted((draw.uniform(0.0, 4000.0), gpus, draw.uniform(30.0, 3000.0)) for gpus in sizes)
    simulation = Case(machines, jobs, costs=ONE_S, network="slow").run(build("dally", {}))
    check_record(record_of(simulation))
    assert all(job.status == FINISHED for job in simulation.jobs)
    assert any(job.preemptions for job in simulation.jobs)
