"""Bursts interleaved in time: the overlap of two rhythms, the shifts, and the times that follow."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from benchmarks.job_mixes import random_mix
from librt.vecs import vec
from mypy_extensions import i64

from dally.perf.cassini import SAME_RHYTHM, CassiniContention, burst_s, fold_of, meeting, period_s
from dally.perf.contention import Contention, Flow
from dally.perf.costs import Cost
from dally.perf.iteration import Demand
from tests.perf.reference_sharing import shared_iteration_s


def on_links(step_s: float, transfer_s: float, links: dict[int, float] | None = None) -> Demand:
    """Compute, then an exposed transfer that fills link 0, or shares of several links."""
    cost = Cost()
    for link, share in sorted((links or {0: 1.0}).items()):
        cost.links = vec[i64]([*cost.links, link])
        cost.seconds = vec[float]([*cost.seconds, share * transfer_s])
    cost.private_s = transfer_s
    return Demand(step_s - transfer_s, 0.0, cost, 1.0)


def together(demands: list[Demand], sharing: type[Contention], links: int = 1) -> Contention:
    contention = sharing(links)
    for job, demand in enumerate(demands):
        contention.add(job, demand)
    return contention


def overlap_by_counting(one: Flow, other: Flow, steps: int, turns: int) -> float:
    """Seconds of both bursts at a time, over a whole number of steps of each."""
    whole_s = turns * period_s(one)
    assert whole_s == pytest.approx(steps * period_s(other))
    total = 0.0
    for own, others in product(range(-1, turns + 1), range(-1, steps + 1)):
        start_s = max(own * period_s(one) + one.shift_s, others * period_s(other) + other.shift_s, 0.0)
        end_s = min(
            own * period_s(one) + one.shift_s + burst_s(one),
            others * period_s(other) + other.shift_s + burst_s(other),
        )
        total += max(0.0, min(end_s, whole_s) - start_s)
    return total / whole_s


@pytest.mark.parametrize("seed", range(40))
def test_overlap_of_two_rhythms_is_what_counting_gives(seed: int) -> None:
    rng = random.Random(seed)
    turns, steps = rng.randint(1, 8), rng.randint(1, 8)
    one = Flow(1, on_links(steps * 1.0, rng.uniform(0.05, 0.95) * steps))
    other = Flow(2, on_links(turns * 1.0, rng.uniform(0.05, 0.95) * turns))
    one.shift_s, other.shift_s = rng.uniform(0.0, steps), rng.uniform(0.0, turns)
    at_random = burst_s(one) / period_s(one) * burst_s(other) / period_s(other)
    counted = overlap_by_counting(one, other, steps=steps, turns=turns)
    assert meeting(one, other) == pytest.approx(counted / at_random, abs=1e-9)
    assert meeting(other, one) == pytest.approx(meeting(one, other), abs=1e-9)


@pytest.mark.parametrize(
    ("steps_s", "transfers_s"),
    [
        ((1.0, 1.0), (0.5, 0.4)),
        ((1.0, 1.0, 1.0), (0.3, 0.3, 0.4)),
        ((1.0, 2.0), (0.4, 0.5)),
        ((2.0, 1.0, 2.0), (0.3, 0.5, 0.3)),
    ],
)
def test_bursts_that_fit_are_as_fast_as_alone(steps_s: tuple[float, ...], transfers_s: tuple[float, ...]) -> None:
    demands = [on_links(*pair) for pair in zip(steps_s, transfers_s, strict=True)]
    fair, shifted = together(demands, Contention), together(demands, CassiniContention)
    for job, demand in enumerate(demands):
        assert shifted.comm_s(job) == pytest.approx(demand.alone_s)
        assert fair.comm_s(job) > 1.1 * demand.alone_s
    # Event by event, with these shifts: the first bursts begin at them, a step later.
    offsets_s = [shifted.flows[job].shift_s + max(steps_s) for job in range(len(demands))]
    assert shared_iteration_s(demands, offsets_s, 20) == pytest.approx(steps_s)


def test_periods_that_drift_meet_at_random() -> None:
    demands = [on_links(1.0, 0.4), on_links(1.45, 0.5)]
    assert fold_of(Flow(1, demands[0]), Flow(2, demands[1])) is None
    fair, shifted = together(demands, Contention), together(demands, CassiniContention)
    assert [shifted.comm_s(job) for job in (0, 1)] == [fair.comm_s(job) for job in (0, 1)]
    near = [on_links(1.0, 0.4), on_links(1.0 + 0.9 * SAME_RHYTHM, 0.5)]
    assert together(near, CassiniContention).comm_s(0) == pytest.approx(0.4)


def test_what_does_not_fit_slows_less_than_at_random() -> None:
    demands = [on_links(1.0, 0.7), on_links(1.0, 0.6)]
    fair, shifted = together(demands, Contention), together(demands, CassiniContention)
    for job, demand in enumerate(demands):
        assert demand.alone_s * 1.01 < shifted.comm_s(job) < 0.95 * fair.comm_s(job)


def test_those_who_run_make_room() -> None:
    # Two gaps of 0.2 and 0.3 s are one of 0.5 s after a neighbour has moved.
    contention = CassiniContention(1)
    for job, transfer_s in enumerate((0.25, 0.3, 0.25)):
        contention.add(job, on_links(1.0, transfer_s))
    contention.remove(1)
    shifts_s = [contention.flows[job].shift_s for job in (0, 2)]
    contention.flows[2].shift_s = 0.45
    contention.add(3, on_links(1.0, 0.5))
    assert [contention.comm_s(job) for job in (0, 2, 3)] == pytest.approx([0.25, 0.25, 0.5])
    assert contention.flows[2].shift_s not in (0.45, shifts_s[1])


@pytest.mark.parametrize("seed", range(12))
def test_shifts_are_near_the_best_of_all(seed: int) -> None:
    rng = random.Random(seed)
    transfers_s = [rng.randint(2, 10) / 20 for _ in range(3)]
    demands = [on_links(1.0, transfer_s) for transfer_s in transfers_s]
    contention = together(demands, CassiniContention)

    def overlap_s(shifts_s: tuple[float, ...]) -> float:
        flows = [Flow(job, demand) for job, demand in enumerate(demands)]
        for flow, shift_s in zip(flows, shifts_s, strict=True):
            flow.shift_s = shift_s
        folds = [(one, other, fold_of(one, other)) for one, other in combinations(flows, 2)]
        return sum(fold.overlap_s(one.shift_s, other.shift_s) for one, other, fold in folds if fold is not None)

    every = [(0.0, *(step / 20 for step in steps)) for steps in product(range(20), repeat=2)]
    best = min(overlap_s(shifts_s) for shifts_s in every)
    assert overlap_s(tuple(contention.flows[job].shift_s for job in range(3))) <= best + 0.01


def test_a_newcomer_is_tried_on_as_it_would_be_placed() -> None:
    contention = together([on_links(1.0, 0.4)], CassiniContention)
    flow = Flow(7, on_links(1.0, 0.5))
    contention.try_on(flow, None)
    assert flow.comm_s == pytest.approx(0.5)
    assert contention.comm_if_s(contention.flows[0], flow, None, {}) == pytest.approx(0.4)


def test_random_mixes_are_no_slower_on_average() -> None:
    rng = random.Random(4)
    slower: list[float] = []
    for _ in range(30):
        network, demands = random_mix(rng)
        links = int(network.link_count())
        fair, shifted = together(demands, Contention, links), together(demands, CassiniContention, links)
        slower += [shifted.iteration_s(job) / fair.iteration_s(job) for job in range(len(demands))]
    assert sum(slower) / len(slower) <= 1.0
