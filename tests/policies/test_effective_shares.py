"""Max-min fair fractions over several types of GPU, against linear programs solved by scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dally.policies.effective_shares import Alike, Pools, effective_shares
from dally.policies.gavel import max_min_fractions
from tests.examples import many


def plain(gpus: list[float]) -> Pools:
    return Pools(gpus, [[(kind, 1.0)] for kind in range(len(gpus))])


def solved(jobs: list[Alike], pools: Pools, floors: list[float], raised: list[int]) -> float:
    """How much more than its floor all of `raised` can have, the others having theirs."""
    count, kinds = len(jobs), len(pools.parts)
    rows, bounds = [], []
    for number, row in enumerate(jobs):
        times = np.zeros(count * kinds + 1)
        times[number * kinds : (number + 1) * kinds] = 1.0
        rows.append(times)
        bounds.append(1.0)
        level = np.zeros(count * kinds + 1)
        level[number * kinds : (number + 1) * kinds] = -np.array(row.levels)
        level[-1] = 1.0 if number in raised else 0.0
        rows.append(level)
        bounds.append(-floors[number])
    for kind, gpus in enumerate(pools.gpus):
        used = np.zeros(count * kinds + 1)
        for number, row in enumerate(jobs):
            for pool, parts in enumerate(pools.parts):
                used[number * kinds + pool] = row.gpus * dict(parts).get(kind, 0.0)
        rows.append(used)
        bounds.append(gpus)
    goal = np.zeros(count * kinds + 1)
    goal[-1] = -1.0
    limits = [(0.0, 1.0)] * (count * kinds) + [(0.0, None)]
    answer = linprog(goal, A_ub=np.array(rows), b_ub=np.array(bounds), bounds=limits, method="highs")
    assert answer.status == 0, answer.message
    return float(-answer.fun)


def by_programs(jobs: list[Alike], pools: Pools) -> list[float]:
    """Levels: raise all of those left, then find out one by one who can still have more."""
    levels = [0.0] * len(jobs)
    left = list(range(len(jobs)))
    while left:
        more = solved(jobs, pools, [level * (1.0 - 1e-10) for level in levels], left)
        for number in left:
            levels[number] += more
        slack = [level * (1.0 - 1e-9) for level in levels]
        left = [number for number in left if solved(jobs, pools, slack, [number]) > 1e-6 * (1.0 + levels[number])]
    return levels


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Alike], Pools]:
    kinds = draw(st.integers(1, 4))
    gpus = draw(st.lists(st.sampled_from([4.0, 8.0, 16.0, 40.0]), min_size=kinds, max_size=kinds))
    pools = plain(gpus)
    if kinds > 1 and draw(st.booleans()):  # a pool of the first two, half and half
        pools = Pools(gpus, [*pools.parts, [(0, 0.5), (1, 0.5)]])
    level = st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0, 1.7, 2.4])
    size = st.sampled_from([1.0, 2.0, 8.0])
    jobs = []
    for _ in range(draw(st.integers(1, 6))):
        width = draw(size)
        row = tuple(width * draw(level) for _ in pools.parts)
        jobs.append(Alike(width * draw(st.integers(1, 9)), row))
    return jobs, pools


@settings(max_examples=many(60), deadline=None)
@given(programs())
def test_levels_are_those_of_the_linear_programs(program: tuple[list[Alike], Pools]) -> None:
    jobs, pools = program
    found = effective_shares(jobs, pools)
    levels = [
        sum(time * level for time, level in zip(times, row.levels, strict=True))
        for times, row in zip(found, jobs, strict=True)
    ]
    assert levels == pytest.approx(by_programs(jobs, pools), rel=1e-5, abs=1e-6)


@settings(max_examples=many(100), deadline=None)
@given(programs())
def test_fractions_suffice_and_fit(program: tuple[list[Alike], Pools]) -> None:
    jobs, pools = program
    found = effective_shares(jobs, pools)
    for times in found:
        assert all(time >= -1e-9 for time in times)
        assert sum(times) <= 1.0 + 1e-9
    for kind, gpus in enumerate(pools.gpus):
        used = sum(
            row.gpus * time * dict(pools.parts[pool]).get(kind, 0.0)
            for row, times in zip(jobs, found, strict=True)
            for pool, time in enumerate(times)
        )
        assert used <= gpus * (1.0 + 1e-9)


@given(st.dictionaries(st.sampled_from([1, 2, 4, 8]), st.integers(1, 20), min_size=1), st.integers(8, 64))
@settings(max_examples=many(60), deadline=None)
def test_one_type_comes_to_what_gavel_has_for_one_type(sizes: dict[int, int], gpus: int) -> None:
    jobs = [Alike(float(size * count), (float(size),)) for size, count in sizes.items()]
    found = effective_shares(jobs, plain([float(gpus)]))
    expected = max_min_fractions(sizes, float(gpus))
    assert [times[0] for times in found] == pytest.approx([expected[size] for size in sizes], abs=1e-7)


def test_who_gains_most_by_the_fast_type_has_it() -> None:
    # One GPU of each type. The first is 4 times as fast on the first type, the second no faster: each has its own.
    jobs = [Alike(1.0, (1.6, 0.4)), Alike(1.0, (1.0, 1.0))]
    assert effective_shares(jobs, plain([1.0, 1.0])) == [[1.0, 0.0], [0.0, 1.0]]
