"""Jitter: microseconds on restarts, drawn from seed, replication and job alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.engine.draws import jitter_s
from dally.engine.simulate import Simulation
from dally.model import Costs
from dally.policies.registry import build
from dally.testing.strategies import Case

COSTS = Costs(restart_s=5.0, restart_per_gpu_s=1.0)
# a runs 0-10. b, shorter, takes its GPUs at 10 and is done at 30. a restarts for 5 + 8 s, works from 43 on, and has
# 90 s left: done at 133.
CASE = Case([((), 8)], [(0.0, 8, 100.0), (10.0, 8, 20.0)], costs=COSTS)


def run(costs: Costs) -> Simulation:
    return replace(CASE, costs=costs).run(build("srtf"))


def test_a_restart_differs_by_its_jitter_and_nothing_else_does() -> None:
    assert [job.finish_s for job in run(COSTS).jobs] == [133.0, 30.0]
    for replication in (1, 2):
        found = run(COSTS._replace(jitter=replication, seed=7))
        by_s = jitter_s(7, replication, 0)
        assert 0.0 < abs(by_s) <= 1e-6
        assert [job.finish_s for job in found.jobs] == [pytest.approx(133.0 + by_s, abs=1e-12), 30.0]
        assert found.jobs[0].overhead_s == pytest.approx(13.0 + by_s, abs=1e-12)


def test_what_costs_nothing_never_costs_less() -> None:
    free = Costs(restart_s=0.0, restart_per_gpu_s=0.0)
    for replication in range(1, 9):
        (a, _) = run(free._replace(jitter=replication)).jobs
        assert a.finish_s == pytest.approx(120.0 + max(0.0, jitter_s(1, replication, 0)), abs=1e-12)


def test_policies_are_told_the_restart_as_it_is_meant() -> None:
    found = run(COSTS._replace(jitter=3))
    assert found.state.policy.view.restart_s(found.jobs[0]) == 13.0


@given(st.integers(0, 1 << 40), st.integers(1, 1000), st.integers(0, 1 << 20))
def test_draws_lie_within_a_microsecond_and_depend_on_all_three(seed: int, replication: int, job: int) -> None:
    found = jitter_s(seed, replication, job)
    assert abs(found) <= 1e-6
    assert found == jitter_s(seed, replication, job)
    assert found not in (jitter_s(seed + 1, replication, job), jitter_s(seed, replication + 1, job))
    assert found != jitter_s(seed, replication, job + 1)
    assert jitter_s(seed, 0, job) == 0.0


def test_draws_are_even() -> None:
    found = [jitter_s(1, 1, job) for job in range(10_000)]
    assert abs(sum(found) / len(found)) < 2e-8, "three standard errors"
    assert sum(abs(one) < 0.5e-6 for one in found) == pytest.approx(5000, abs=150)
