"""Pollux and Sia: the choice of sizes against another solver, rounds by hand, and what must hold of any run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from dally.model import INFINITY
from dally.policies.goodput.knapsack import SizeOptions, cheapest_sizes
from dally.policies.registry import build
from dally.testing.strategies import Case, cases
from tests.policies.dally.test_resizing import MACHINE, ONE_S, changes, check, elastic

NAMES = ("pollux", "sia")
Options = list[tuple[int, float]]
OPTIONS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(-20, 40).map(lambda cost: cost / 8.0)), min_size=1, max_size=5
)


def options_of(rows: Options) -> SizeOptions:
    result = SizeOptions()
    for size, cost in rows:
        result.add(size, cost)
    return result


def solved(jobs: list[Options], gpus: int) -> float:
    """The least sum of costs by HiGHS."""
    rows = [(place, size, cost) for place, job in enumerate(jobs) for size, cost in job]
    one_each = np.array([[float(row[0] == place) for row in rows] for place in range(len(jobs))])
    taken = np.array([[float(row[1]) for row in rows]])
    answer = milp(
        np.array([row[2] for row in rows]),
        integrality=np.ones(len(rows)),
        bounds=Bounds(0.0, 1.0),
        constraints=[LinearConstraint(one_each, 1.0, 1.0), LinearConstraint(taken, 0.0, float(gpus))],
    )
    assert answer.success, answer.message
    return float(answer.fun)


@given(st.lists(OPTIONS, min_size=1, max_size=6), st.integers(0, 30))
@settings(max_examples=100, deadline=None)
def test_sizes_cost_as_little_as_an_integer_program_finds(offered: list[Options], gpus: int) -> None:
    jobs = [[*job, (0, 6.0)] for job in offered]
    sizes = cheapest_sizes([options_of(job) for job in jobs], gpus)
    assert sum(sizes) <= gpus
    cost = sum(
        min((cost for size, cost in job if size == chosen), default=INFINITY)
        for job, chosen in zip(jobs, sizes, strict=True)
    )
    assert cost == pytest.approx(solved(jobs, gpus))


def test_under_sia_a_job_begins_at_its_least_size_and_doubles() -> None:
    simulation = elastic(Case(MACHINE, [(0.0, 4, 4000.0)], costs=ONE_S), build("sia"), [0])
    assert [row[:1] + row[1:2] + row[3:] for row in changes(simulation)[:3]] == [
        (0.0, "start", 2), (60.0, "resize", 4), (120.0, "resize", 8),
    ]  # fmt: skip


def test_under_pollux_two_alike_share_the_machine_evenly() -> None:
    jobs = [(0.0, 4, 4000.0), (0.0, 4, 4000.0)]
    simulation = elastic(Case(MACHINE, jobs, costs=ONE_S), build("pollux"), [0, 1])
    assert changes(simulation)[:2] == [(0.0, "start", 0, 4), (0.0, "start", 1, 4)]


def test_a_job_shrinks_for_one_that_comes() -> None:
    """In the next round, to where both have their share."""
    for name in NAMES:
        jobs = [(0.0, 8, 40_000.0), (5000.0, 4, 600.0)]
        simulation = elastic(Case(MACHINE, jobs, costs=ONE_S), build(name), [0], 1.0)
        at_first = [row for row in changes(simulation) if 5000.0 <= row[0] <= 5060.0]
        assert [(kind, job, gpus) for _, kind, job, gpus in at_first] == [("resize", 0, 4), ("start", 1, 4)], name
        assert simulation.jobs[0].preemptions == 0


@pytest.mark.parametrize("name", NAMES)
def test_without_elastic_every_job_keeps_the_size_it_asks_for(name: str) -> None:
    jobs = [(0.0, 4, 1000.0), (0.0, 2, 500.0), (30.0, 8, 700.0)]
    simulation = elastic(Case(MACHINE, jobs, costs=ONE_S), build(name, {"elastic": "off"}), [0, 1, 2])
    sizes = {(job, gpus) for _, kind, job, gpus in changes(simulation) if kind in ("start", "resize")}
    assert sizes == {(0, 4), (1, 2), (2, 8)}


@given(cases(constraints_too=False), st.sampled_from(NAMES), st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_sizes_and_work_hold_in_any_run(case: Case, name: str, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(case.jobs) - 1), unique=True))
    check(case, name, sorted(numbers))
