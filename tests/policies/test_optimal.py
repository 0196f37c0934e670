"""No policy beats the best schedule there is, found by trying all of them."""

from __future__ import annotations

import random

import pytest

from dally import is_compiled
from dally.model import Costs
from dally.policies.base import Policy
from dally.policies.registry import POLICIES, build
from dally.testing.invariants import check_record, record_of
from dally.testing.strategies import Case
from tests.optimal import Ask, OptimalTiny, best_schedule

INSTANCES = 500 if is_compiled() else 100  # the same ones; plain Python takes minutes for all of them
GPUS = 4


def instance(seed: int) -> list[Ask]:
    draw = random.Random(seed)
    jobs = [(draw.randint(0, 3), draw.randint(1, GPUS), draw.randint(1, 4)) for _ in range(draw.randint(2, 6))]
    return sorted(jobs, key=lambda job: job[0])


def mean_jct_s(jobs: list[Ask], policy: Policy) -> float:
    case = Case(
        [((), GPUS // 2), ((), GPUS // 2)],
        [(float(submit_s), gpus, float(duration_s)) for submit_s, gpus, duration_s in jobs],
        costs=Costs(0.0, 0.0, 0.0),
    )
    simulation = case.run(policy)
    check_record(record_of(simulation))
    assert all(job.finish_s >= 0.0 for job in simulation.jobs)
    return sum(job.finish_s - job.submit_s for job in simulation.jobs) / len(jobs)


def test_by_hand() -> None:
    # 4 GPUs. The gang of 4 first, then the two halves: 1 + 4 + 4 = 9. The halves first: 3 + 3 + 4 = 10.
    assert best_schedule([(0, 4, 1), (0, 2, 3), (0, 2, 3)], 4) == [(0,), (1, 2), (1, 2), (1, 2)]
    # The long job makes way for a short one that comes later.
    assert best_schedule([(0, 4, 3), (1, 4, 1)], 4) == [(0,), (1,), (0,), (0,)]


@pytest.mark.once
def test_never_beaten() -> None:
    ratios: list[float] = []
    for seed in range(INSTANCES):
        jobs = instance(seed)
        best_s = mean_jct_s(jobs, OptimalTiny(jobs, GPUS))
        for name in POLICIES:
            reached_s = mean_jct_s(jobs, build(name))
            assert reached_s >= best_s - 1e-9, f"{name} reaches {reached_s} on {jobs}, the optimum is {best_s}"
            if name == "srtf":
                ratios.append(reached_s / best_s)
    assert sum(ratios) / len(ratios) <= 1.05
    assert max(ratios) <= 1.5


def test_more_than_six_jobs_are_refused() -> None:
    with pytest.raises(AssertionError, match="too many"):
        OptimalTiny([(0, 1, 1)] * 7, GPUS)
