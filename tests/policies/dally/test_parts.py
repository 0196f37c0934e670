"""Compaction, eviction, mixing and migration: what each plan must keep, on random clusters."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.model import RUNNING, Costs, Job
from dally.policies.dally.compaction import cheapest_clearing
from dally.policies.dally.context import Context
from dally.policies.dally.limits import Limits
from dally.policies.dally.migration import better_place, by_loss
from dally.policies.dally.movable import Move
from dally.policies.dally.preemption import (
    Room,
    add_candidates,
    cheapest_eviction,
    cheapest_opening,
    needed,
    price_of,
)
from dally.policies.view import View
from tests.examples import many
from tests.policies.dally.busy import NOW_S, Busy, busy_clusters
from tests.policies.test_view import grid, place


def free_in(cluster: Cluster, tier: int, domain: int, moves: list[Move], losers: list[Job]) -> int:
    """GPUs of a domain that are free once these have left; every move must find its place free."""
    with cluster.trial() as trial:
        for loser in losers:
            assert loser.allocation is not None
            trial.release(loser.allocation)
        for move in moves:
            trial.take(move.allocation)
            assert move.job.allocation is not None
            trial.release(move.job.allocation)
        return int(cluster.free[tier][domain])


def rooms_of(gpus: int, tier: int, candidates: list[Job], cluster: Cluster) -> dict[int, Room]:
    """By domain, what all these candidates make room for."""
    rooms: dict[int, Room] = {}
    add_candidates(rooms, gpus, tier, candidates, cluster)
    return rooms


def is_no_worse(move: Move, cluster: Cluster) -> bool:
    """Whether a move ends no farther apart and on no more machines."""
    held = move.job.allocation
    assert held is not None
    tier = cluster.topology.tier_of(move.allocation)
    return (
        int(move.allocation.total()) == int(move.job.gpus)
        and tier <= move.job.tier
        and len(move.allocation.machines) <= len(held.machines)
    )


@settings(max_examples=many(150))
@given(busy_clusters(), st.integers(2, 12))
def test_a_clearing_frees_its_domain_and_puts_nobody_farther(busy: Busy, gpus: int) -> None:
    cluster, job = busy.cluster, busy.comes(gpus)
    near = cluster.topology.closest_tier(gpus)
    found = cheapest_clearing(job, near, NOW_S, cluster, busy.context)
    if found is None:
        return
    assert all(is_no_worse(move, cluster) for move in found.moves)
    first, last = cluster.topology.machines_of(near, found.domain)
    for move in found.moves:
        assert not any(first <= machine < last for machine in move.allocation.machines)
    assert free_in(cluster, near, found.domain, found.moves, []) >= gpus
    costs = [busy.prices.stop_s(move.job, NOW_S) * float(move.job.gpus) for move in found.moves]
    assert found.cost_gpu_s == pytest.approx(sum(costs))


@settings(max_examples=many(150))
@given(busy_clusters(), st.integers(1, 12))
def test_an_eviction_frees_its_domain_and_spares_whom_it_can(busy: Busy, gpus: int) -> None:
    cluster, job = busy.cluster, busy.comes(gpus)
    near = cluster.topology.closest_tier(gpus)
    candidates = sorted(busy.running, key=lambda other: -busy.order.key(other, NOW_S))
    rooms = rooms_of(gpus, near, candidates, busy.cluster)
    found = cheapest_eviction(job, near, rooms, NOW_S, cluster, busy.context)
    if found is None:
        assert max(cluster.topology.gpus[near]) < gpus or not candidates or near == 0 or cluster.free_gpus >= gpus
        return
    assert free_in(cluster, near, found.domain, [], found.losers) >= gpus
    for spared in found.losers:
        rest = [other for other in found.losers if other is not spared]
        assert free_in(cluster, near, found.domain, [], rest) < gpus


@settings(max_examples=many(150))
@given(busy_clusters(), st.integers(1, 12), st.integers(1, 4))
def test_rooms_are_made_of_the_first_candidates(busy: Busy, gpus: int, at_a_time: int) -> None:
    cluster = busy.cluster
    near = int(cluster.topology.closest_tier(gpus))
    rooms: dict[int, Room] = {}
    enough = 0
    for first in range(0, len(busy.running), at_a_time):
        enough += int(add_candidates(rooms, gpus, near, busy.running[first : first + at_a_time], cluster))
    for domain, room in rooms.items():
        first, last = cluster.topology.machines_of(near, domain)
        free = int(cluster.free[near][domain])
        losers = []
        for job in busy.running:
            assert job.allocation is not None
            held = sum(held for machine, held in job.allocation.parts() if first <= machine < last)
            if held and free < gpus:
                free += held
                losers.append(job)
        assert (room.free, room.losers) == (free, losers)
        assert all(loser in losers for loser in needed(gpus, room, busy.order))
    assert enough == sum(1 for room in rooms.values() if room.losers and room.free >= gpus)


@settings(max_examples=many(100))
@given(st.lists(st.sampled_from([0.0, 100.0, 1e4, 1e6]), min_size=12, max_size=12), st.sampled_from([1, 2, 4, 8]))
def test_among_equal_gangs_the_cheapest_set_of_all_is_evicted(works_s: list[float], gpus: int) -> None:
    busy = Busy(Cluster.grid(1, 3, 4))
    for number, work_s in enumerate(works_s):
        busy.run([(number // 4, 1)], work_s)
    job = busy.comes(gpus)
    near = busy.cluster.topology.closest_tier(gpus)
    candidates = sorted(busy.running, key=lambda other: -busy.order.key(other, NOW_S))
    rooms = rooms_of(gpus, near, candidates, busy.cluster)
    found = cheapest_eviction(job, near, rooms, NOW_S, busy.cluster, busy.context)
    residence_s = busy.order.left_s(job)
    domains = [busy.running[4 * m : 4 * m + 4] for m in range(3)] if near == 0 else [busy.running]
    least = min(
        price_of(list(losers), residence_s, NOW_S, busy.context)
        for inside in domains
        for losers in combinations(inside, gpus)
    )
    assert found is not None
    assert found.price == pytest.approx(least)


@settings(max_examples=many(150))
@given(busy_clusters(), st.integers(2, 12), st.integers(0, 11))
def test_an_opening_moves_some_and_stops_only_candidates(busy: Busy, gpus: int, stoppable: int) -> None:
    cluster, job = busy.cluster, busy.comes(gpus)
    near = cluster.topology.closest_tier(gpus)
    candidates = busy.running[:stoppable]
    rooms = rooms_of(gpus, near, candidates, cluster)
    found = cheapest_opening(job, near, rooms, NOW_S, cluster, busy.context)
    if found is None:
        return
    assert all(is_no_worse(move, cluster) for move in found.moves)
    assert {loser.job_id for loser in found.losers} <= {other.job_id for other in candidates}
    assert not {move.job.job_id for move in found.moves} & {loser.job_id for loser in found.losers}
    assert free_in(cluster, near, found.domain, found.moves, found.losers) >= gpus


@settings(max_examples=many(100))
@given(busy_clusters(), st.integers(2, 12), st.integers(0, 1))
def test_nothing_is_planned_in_a_domain_that_is_kept(busy: Busy, gpus: int, domain: int) -> None:
    cluster, job = busy.cluster, busy.comes(gpus)
    near = cluster.topology.closest_tier(gpus)
    busy.reserved.reserve(Job(99, "kept", 0.0, 4, 1.0), 1, domain)
    first, last = cluster.topology.machines_of(1, domain)
    kept = {f"{machine}" for machine in range(first, last)}
    rooms = rooms_of(gpus, near, busy.running, cluster)
    evicted = cheapest_eviction(job, near, rooms, NOW_S, cluster, busy.context)
    cleared = cheapest_clearing(job, near, NOW_S, cluster, busy.context)
    for plan in (evicted, cleared):
        if plan is not None:
            begin, end = cluster.topology.machines_of(near, plan.domain)
            assert not kept & {f"{machine}" for machine in range(begin, end)}
    for move in cleared.moves if cleared is not None else []:
        assert not any(first <= machine < last for machine in move.allocation.machines)


def test_a_gang_moves_once_that_pays_for_its_restart() -> None:
    # Two GPUs across two machines take 2 s an iteration, on one machine 1 s: the slowdown is 2. A restart costs
    # 2 s, so a move must save 60 s. With x seconds of work left it saves x · (2 - 1).
    cluster, speed = grid()
    job = place(speed, 0, [(0, 1), (1, 1)])
    assert job.allocation is not None
    job.status, job.placed_s, job.tier = RUNNING, 0.0, 1
    cluster.take(job, job.allocation)
    busy = Busy(cluster)
    busy.order.view = View(speed, Costs(0.0, 1.0, 0.0))

    def context(limits: Limits) -> Context:
        return Context(limits, busy.order, busy.order.view)

    usual = context(busy.limits)
    assert usual.prices.excess(job) == pytest.approx(2.0, rel=1e-2)
    for non_preemptible, candidates in ((True, []), (False, [job])):
        job.non_preemptible = non_preemptible
        assert by_loss({0: job}, NOW_S, usual) == candidates
    left_s = busy.order.left_s(job)
    move = better_place(job, NOW_S, cluster, usual)
    assert move is not None
    assert move.allocation.parts() == [(0, 2)]
    assert move.cost_s == 2.0
    assert move.saved_s == pytest.approx(left_s, rel=1e-2)
    for least_s, moves in ((left_s * 0.9, True), (left_s * 1.1, False)):
        assert (better_place(job, NOW_S, cluster, context(Limits(least_saving_s=least_s))) is not None) == moves
    assert better_place(job, NOW_S, cluster, context(Limits(saving=1e9))) is None
    # Where a domain is reserved for another job its own place there does not count as free.
    usual.reserved.reserve(Job(9, "first", 0.0, 4, 1.0), 1, 0)
    elsewhere = better_place(job, NOW_S, cluster, usual)
    assert elsewhere is not None
    assert elsewhere.allocation.parts() == [(2, 2)]
