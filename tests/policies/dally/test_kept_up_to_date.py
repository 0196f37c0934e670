"""What the policy keeps up to date from event to event equals what a look at everybody would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.model import CANCELLED, WAITING, Job
from dally.policies.dally.ledger import Ledger
from dally.policies.dally.limits import Limits
from dally.policies.dally.migration import Losses
from dally.policies.dally.movable import Movable
from dally.policies.dally.pricing import Prices
from dally.policies.dally.retries import Retries
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.prediction.hazard import HazardTable
from tests.policies.dally.busy import NOW_S, VIEW, Busy, busy_clusters

LEAST_EXCESS = 1.25
RATES = st.sampled_from([0.0, 0.25, 0.5, 0.7, 0.8, 1.0])


@given(
    st.lists(st.tuples(st.integers(0, 5), RATES, st.booleans()), max_size=60),
    st.sampled_from([0.5, 1.0, 1.25, 1.5, 2.0, 4.0]),
)
def test_losses_are_those_of_all_who_run(steps: list[tuple[int, float, bool]], most: float) -> None:
    busy = Busy(Cluster.grid(2, 3, 8))
    gangs = [busy.run([(number, 1), ((number + 1) % 6, 1 + number % 3)], 0.0) for number in range(5)]
    gangs.append(busy.run([(0, 1)], 0.0))  # on one machine: it loses nothing
    prices, losses = Prices(VIEW, Limits()), Losses(LEAST_EXCESS)
    running: dict[int, Job] = {}
    for number, rate, runs in steps:
        job = gangs[number]
        job.rate = rate
        if runs:
            running[number] = job
            losses.note(job, prices)
        else:
            running.pop(number, None)
            losses.remove(job)
        spread = {index: other for index, other in running.items() if index != 5}
        assert losses.spread == spread
        lost = {index: 1.0 / other.rate - 1.0 for index, other in spread.items() if other.rate > 0.0}
        slow = [index for index, excess in lost.items() if excess + 1.0 > LEAST_EXCESS]
        assert losses.slow == {index: spread[index] for index in slow}
        gpus = sum(int(other.gpus) for other in running.values())
        total = sum(excess * int(spread[index].gpus) for index, excess in lost.items())
        slowdown = 1.0 + total / gpus if gpus else 1.0
        if abs(slowdown - most) > 1e-12:
            assert losses.slower_than(most, gpus) == (slowdown > most)


WHAT = st.sampled_from(["add", "add", "remove", "rerank"])
CHANGE = st.tuples(
    WHAT, st.integers(0, 9), st.sampled_from([1.0, 2.0, 3.0, 5.0, 8.0]), st.sampled_from([1, 2, 4, 20])
)
CHANGES = st.lists(CHANGE, min_size=8, max_size=40)


@given(CHANGES, st.sampled_from([0.0, 1.0, 2.1]), st.integers(1, 7), st.integers(0, 1))
def test_who_may_lose_his_gpus_is_as_if_all_were_sorted(
    changes: list[tuple[str, int, float, int]], rank: float, at_a_time: int, spare: int
) -> None:
    busy, ledger, stick = Busy(Cluster.grid(3, 2, 8)), Ledger(spare), 0.7
    jobs = [busy.run([(number % 6, 1)], 0.0) for number in range(10)]
    jobs[3].placed_s = NOW_S  # just now
    ranks: dict[int, float] = {}
    for what, number, value, most in changes:
        if what == "add":
            ledger.add(jobs[number], value, NOW_S + 1.0 if number == 4 else 0.0)
            ranks[number] = value
        elif what == "remove":
            ledger.remove(jobs[number])
            ranks.pop(number, None)
        elif number in ranks:
            ledger.rerank(jobs[number], value)
            ranks[number] = value
        found: list[int] = []
        for place in range(0, most, at_a_time):
            some = ledger.worse_than(rank, stick, NOW_S, place, min(place + at_a_time, most))
            found += [int(job.index) for job in some or []]
        worst = sorted(ranks.keys() - {4}, key=lambda number: (-ranks[number], number))[:most]
        assert found == [n for n in worst if stick * ranks[n] > rank and n != 3]


STEPS = st.lists(st.sampled_from(["changed", "failed", "forget", "a minute"]), max_size=30)


@given(STEPS, st.sampled_from([1, 255, 256, 600]))
def test_what_failed_is_tried_again_after_so_many_changes(steps: list[str], machines: int) -> None:
    retries, job, now = Retries(180.0), Job(7, "a", 0.0, 8, 1.0), 0.0
    retries.begin_pass(machines, 1)
    since: int | None = None
    since_s = now
    for step in steps:
        if step == "changed":
            retries.changed()
            since = since + 1 if since is not None else None
        elif step == "failed":
            retries.failed(job, now)
            since, since_s = 0, now
        elif step == "a minute":
            now += 60.0
        else:
            retries.forget(job)
            since = None
        due = machines < 256 or since is None or since >= machines // 64 or now - since_s >= 180.0
        assert retries.is_due(job, now) == due
        assert retries.is_due(Job(8, "b", 0.0, 8, 1.0), now)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=12), st.integers(1, 5), st.integers(0, 11))
def test_ranks_worked_out_bit_by_bit_end_up_the_same(sizes: list[int], at_once: int, gone: int) -> None:
    cluster = Cluster.grid(1, 2, 8)
    orders = [GittinsOrder(HazardTable(), 1000.0) for _ in range(2)]
    orders[1].most_at_once = at_once
    jobs = [Job(index, f"j{index}", 0.0, gpus, 1e9) for index, gpus in enumerate(sizes)]
    named: list[set[int]] = [set(), set()]
    for order, found in zip(orders, named, strict=True):
        for job in jobs:
            job.status = WAITING
        order.begin(VIEW)
        for job in jobs:
            order.queued(job, 0.0)
        order.changed(0.0, cluster)
        for _ in range(len(jobs)):
            order.changed(0.0, cluster)  # nothing is left of the first time
        for _ in range(30):
            order.table.ended(order.table.class_of(jobs[0]), 3)
        found.update(int(job.index) for job in order.changed(1.0, cluster))
        if gone < len(jobs):
            jobs[gone].status = CANCELLED
            order.withdrawn(jobs[gone], 1.0)
        for _ in range(len(jobs)):
            found.update(int(job.index) for job in order.changed(1.0, cluster))
    left = [job for job in jobs if int(job.index) != gone]
    assert [orders[0].key(job, 1.0) for job in left] == [orders[1].key(job, 1.0) for job in left]
    assert named[0] - {gone} == named[1] - {gone}


@given(busy_clusters(), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.booleans()), max_size=8))
def test_who_may_be_moved_is_remembered_until_somebody_stops(
    busy: Busy, asked: list[tuple[int, int, bool]]
) -> None:
    cluster = busy.cluster
    for tier, number, stops in asked:
        domain = number % len(cluster.topology.names[tier])
        found = busy.movable.inside(tier, domain, NOW_S, cluster, busy.prices)
        assert found == Movable(busy.churn).inside(tier, domain, NOW_S, cluster, busy.prices)
        first, last = cluster.topology.machines_of(tier, domain)
        wanted = []
        for job in cluster.running.values():
            assert job.allocation is not None
            if all(first <= machine < last for machine, _ in job.allocation.parts()):
                wanted.append((int(job.gpus), int(job.index)))
        assert [(int(job.gpus), int(job.index)) for job in found] == sorted(wanted)
        if stops and found:
            assert found[0].allocation is not None
            cluster.give_back(found[0], found[0].allocation)
            busy.movable.forget()
