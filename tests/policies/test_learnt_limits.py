"""Tiresias's queues with limits learnt from the jobs that have finished."""

from __future__ import annotations

import pytest

from dally.errors import InputError
from dally.perf.profiles import find_profile
from dally.policies.ordering.discrete_las import QUANTILES, limits_of
from dally.policies.registry import POLICIES, build
from dally.testing.conformance import check_policy
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


@pytest.mark.parametrize("policy", ["tiresias", "tiresias-gittins"])
@pytest.mark.parametrize("promote", ["1", "inf"])
def test_learning_keeps_the_contract(policy: str, promote: str) -> None:
    check_policy(lambda: build(policy, {"learn_from": "2", "promote": promote}), examples=many(20))
