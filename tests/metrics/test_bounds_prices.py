"""The bound from prices: a job's choice against trying every finish, and any prices against the best schedule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.vecs import vec

from dally.metrics.bounds.ascent import best_priced_total_s
from dally.metrics.bounds.busy_time import busy_time_total_s
from dally.metrics.bounds.jct import least_makespan_s
from dally.metrics.bounds.market import Choice, Market, Ruling
from dally.metrics.bounds.offered import Grid, Workload
from tests.metrics.test_bounds import GPUS, ROWS, TINY, Row, floats, optimal_total_s, workload
from tests.optimal import Ask

PRICES = st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 2.0]), min_size=1, max_size=12)


def priced(jobs: Workload, grid: Grid) -> Ruling:
    """What the grid's prices come to."""
    price, grid.price = grid.price, vec[float]([0.0] * int(grid.bins))
    market = Market(jobs, grid)
    grid.price = price
    return market.ruling()


def charged(prices: list[float], width_s: float) -> Grid:
    grid = Grid(width_s * len(prices), len(prices))
    grid.price = vec[float](prices)
    return grid


def tried_s(grid: Grid, submit: int, gpus: int, duration: int) -> float:
    """The least cost over every finish at a whole second: the cheapest seconds before it."""
    prices, width = list(grid.price), int(grid.width_s)
    last = submit + duration + len(prices) * width + 1
    seconds = [prices[second // width] if second // width < len(prices) else 0.0 for second in range(last)]
    return min(
        end - submit + gpus * sum(sorted(seconds[submit:end])[:duration]) for end in range(submit + duration, last)
    )


def test_a_choice_by_hand() -> None:
    # 2 GPUs for 2 s at prices 1, 1, 0, 0.75. At once: 2 + 2·(1 + 1) = 6. One second later: 3 + 2·(1 + 0) = 5.
    # At 0.75 another second saves 2·0.25 and costs 1. After that GPUs are free: 5 + 2·0 is no less than 5.
    choice = Choice(charged([1.0, 1.0, 0.0, 0.75], 1.0))
    assert choice.least_s(0.0, 2.0, 2.0) == 5.0
    assert sorted(choice.used) == [0.0, 0.0, 2.0, 2.0]
    assert choice.used[2] == 2.0


@given(PRICES, st.integers(1, 4), st.integers(0, 20), st.integers(1, 9), st.integers(0, 25))
def test_a_job_chooses_its_cheapest_time(
    prices: list[float], width: int, submit: int, gpus: int, duration: int
) -> None:
    grid = charged(prices, float(width))
    found_s = Choice(grid).least_s(float(submit), float(gpus), float(duration))
    assert found_s == pytest.approx(tried_s(grid, submit, gpus, duration))


@given(TINY, PRICES, st.floats(0.3, 3.0))
def test_any_prices_are_sound(asks: list[Ask], prices: list[float], width_s: float) -> None:
    found = priced(workload(floats(asks), GPUS), charged(prices, width_s))
    assert found.total_s <= optimal_total_s(asks) * (1 + 1e-9)


@given(ROWS, PRICES, PRICES)
def test_what_is_overdrawn_says_how_the_bound_changes(
    rows: list[Row], one: list[float], other: list[float]
) -> None:
    # The bound is concave in the prices: everywhere below the plane through one point.
    jobs = workload(rows, 8)
    bins = min(len(one), len(other))
    here, there = charged(one[:bins], 7.0), charged(other[:bins], 7.0)
    found = priced(jobs, here)
    plane_s = found.total_s + sum(
        found.overdrawn[place] * (there.price[place] - here.price[place]) for place in range(bins)
    )
    assert priced(jobs, there).total_s <= plane_s + 1e-6


@given(ROWS, PRICES, st.integers(8, 20))
def test_more_gpus_never_raise_the_bound_at_given_p(rows: list[Row], prices: list[float], gpus: int) -> None:
    grid = charged(prices, 5.0)
    assert priced(workload(rows, gpus + 1), grid).total_s <= priced(workload(rows, gpus), grid).total_s


@given(ROWS)
def test_steps_only_improve_on_free_gpus_and_on_the_first_prices(rows: list[Row]) -> None:
    jobs = workload(rows, 8)
    grid = Grid(least_makespan_s(jobs), 20)
    free_s = priced(jobs, grid).total_s
    busy_time_total_s(jobs, grid)
    waiting = list(grid.price)
    first_s = priced(jobs, charged([count / 8 for count in waiting], grid.width_s)).total_s
    assert best_priced_total_s(jobs, grid) >= max(free_s, first_s) - 1e-6
