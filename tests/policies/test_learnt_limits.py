"""Tiresias's queues with limits learnt from the jobs that have finished."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from dally.errors import InputError
from dally.model import Costs
from dally.perf.profiles import find_profile
from dally.policies.ordering.discrete_las import QUANTILES, limits_of
from dally.policies.registry import POLICIES, build
from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.testing.conformance import check_case, check_policy
from dally.testing.strategies import Case, cases
from tests.examples import many
from tests.policies.test_baselines import ONE, run

USUAL = {param.name: param.default for param in POLICIES["tiresias"].params}


def test_limits_are_quantiles_that_differ() -> None:
    assert limits_of([float(value) for value in range(100)]) == [50.0, 80.0, 95.0]
    assert QUANTILES == (0.5, 0.8, 0.95)
    assert limits_of([0.0, 0.0, 7.0]) == [7.0]
    assert limits_of([0.0, 0.0]) == []


def test_jobs_move_to_the_queues_of_new_limits() -> None:
    # Two jobs of 2 s on 8 GPUs are done at 4: 16 GPU-s each, which is the one limit from then on. Job 2 starts at
    # 4, reaches it at 6 and makes way for job 3 (10 s), which reaches it at 8: equals stay.
    jobs = [(0.0, 8, 2.0), (0.0, 8, 2.0), (0.0, 8, 10.0), (5.0, 8, 10.0)]
    outcome = run("tiresias", {"learn_from": "2"}, ONE, list(jobs))
    assert [(job.start_s, job.finish_s) for job in outcome] == [(0, 2), (2, 4), (4, 24), (6, 16)]
    # With the artifact's limits of 3250 GPU-s and more nobody falls within these.
    fixed = run("tiresias", {"limits": "3250,7200,18000"}, ONE, list(jobs))
    assert [job.finish_s for job in fixed] == [2, 4, 14, 24]


def test_running_jobs_fall_as_limits_are_learnt() -> None:
    # Job 0 holds 4 GPUs throughout and has 16 GPU-s at 4, when the two short ones (8 GPU-s each) are done: it is
    # in the second queue from then on, and job 3, which needs all GPUs, takes its place at 5.
    jobs = [(0.0, 4, 30.0), (0.0, 4, 2.0), (2.0, 4, 2.0), (5.0, 8, 0.5)]
    outcome = run("tiresias", {"learn_from": "2"}, ONE, list(jobs))
    assert (outcome[0].finish_s, *outcome[3][:2]) == (30.5, 5, 5.5)


@pytest.mark.parametrize(
    ("model", "together"),
    [("vgg16", True), ("alexnet", True), ("resnet50", False), ("inception_v3", False)],
)
def test_the_papers_split_of_models(model: str, together: bool) -> None:
    assert (find_profile(model).skew >= float(USUAL["skew"])) is together


def test_what_is_usual() -> None:
    assert (USUAL["limits"], USUAL["promote"]) == ("auto", float("inf"))
    with pytest.raises(InputError, match="must be auto, or GPU-seconds in rising order"):
        build("tiresias", {"limits": "often"})


# One of 2 GPUs and one of 11 run for 2.1 and 0.1 s, wait, and are weighed again at one instant with equal service
# but for the last bit of a float.
ALIKE = Case(
    [((rack,), 4) for rack in "abc"],
    [
        *[(0.0, 1, 0.0)] * 9, *[(0.0, 1, 0.5)] * 3, (0.0, 1, 5.0), (0.0, 1, 2.5), (0.0, 1, 2.0),
        *[(0.0, 2, 2.5)] * 2, (0.0, 3, 0.5), (0.0, 11, 0.5), (1.0, 1, 0.5),
        *[(60.0, gpus, 0.5) for gpus in (2, 4, 5)],
    ],
    costs=Costs(500.0, 3.0),
)  # fmt: skip


def test_gangs_of_equal_service_do_not_preempt_each_other_without_end() -> None:
    simulation = ALIKE.run(build("tiresias-gittins", {"learn_from": "2"}))
    assert all(job.finish_s >= 0.0 for job in simulation.jobs)


def test_a_crowd_that_once_never_came_to_an_end(shared: Path) -> None:
    scenario = Scenario(
        str(shared / "cases" / "gittins_endless.csv"), "3x3x3", "tiresias-gittins", restart_s=500.0,
        restart_per_gpu_s=3.0,
    )  # fmt: skip
    summary = execute(scenario).summary
    assert summary["finished"] == summary["jobs"] == 33


@pytest.mark.parametrize("policy", ["tiresias", "tiresias-gittins"])
def test_learning_keeps_the_contract(policy: str) -> None:
    check_policy(lambda: build(policy, {"learn_from": "2"}), examples=many(20))


# Not in a crowd: where a restart takes 500 s, jobs that are promoted so soon preempt each other for ever.
@pytest.mark.parametrize("policy", ["tiresias", "tiresias-gittins"])
@settings(max_examples=many(20))
@given(case=cases())
def test_promotion_keeps_the_contract(case: Case, policy: str) -> None:
    check_case(case, lambda: build(policy, {"learn_from": "2", "promote": "1"}))
