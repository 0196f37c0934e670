"""`TunePolicy-v0` and `InspectDecision-v0`: what a step is, and that what they learn runs as a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dally.errors import InputError
from dally.gym import make
from dally.gym.windows import mean_jct_s
from dally.live.config import Setup
from dally.model import FINISHED
from dally.policies.choices.model_file import model_text
from dally.policies.choices.scorer import Layer, Scorer
from dally.policies.choices.tuning_policy import TuningPolicy
from dally.policies.registry import Built, build
from dally.runs.team_setup import policy_for

TUNE: dict[str, Any] = {"candidates": "fifo,las:lease_s=600,srtf", "hours": 0.2}


def tune_env(path: str, **more: Any) -> Any:
    return make("TunePolicy-v0", trace=path, cluster="2x2x4", options={**TUNE, **more}, window_jobs=30)


def alone(env: Any, name: str, **settings: str) -> float:
    simulation = env.windows.simulation(0, build(name, settings))
    simulation.run()
    return float(mean_jct_s(simulation.jobs))


def played(env: Any, choose: Any) -> dict[str, Any]:
    """The info at the end of an episode whose actions are `choose(step)`."""
    _, info = env.reset(options={"window": 0})
    over, step = False, 0
    while not over:
        _, _, over, _, info = env.step(choose(step))
        step += 1
    return info  # type: ignore[no-any-return]


def test_a_candidate_that_stays_in_use_makes_the_run_that_it_makes_alone(trace: str) -> None:
    env = tune_env(trace)
    assert played(env, lambda step: 0)["jct_mean_s"] == alone(env, "fifo")
    changed = played(env, lambda step: 2)["jct_mean_s"]
    assert changed < alone(env, "fifo"), "the shortest first from the second window on"
    assert changed != alone(env, "srtf")


def test_a_policy_that_was_tuned_runs_as_its_environment_says(trace: str) -> None:
    """It prefers `las` while more GPUs are asked for than a number of the weights says."""
    env = tune_env(trace)
    columns = list(env.columns)
    weights = [0.0] * len(columns)
    weights[columns.index("is_1")] = 1.0
    weights[columns.index("in_use")] = 0.5
    scorer = Scorer([Layer([weights], [0.0])])
    _, info = env.reset(options={"window": 0})
    over = False
    while not over:
        choices = env._choices
        _, _, over, _, info = env.step(scorer.best(choices.rows, choices.width, choices.mask))
    simulation = env.windows.simulation(0, env.policy(scorer))
    simulation.run()
    assert info["jct_mean_s"] == mean_jct_s(simulation.jobs)
    assert isinstance(simulation.state.policy, TuningPolicy)
    assert simulation.state.policy.base.registered_name == "las"


def test_a_mixture_draws_by_its_seed(trace: str, tmp_path: Path) -> None:
    env = tune_env(trace)
    weights = [0.0] * len(env.columns)
    means = set()
    for seed in (1, 1, 2, 3):
        path = tmp_path / "mixture.json"
        path.write_text(model_text("tune", {**env.options, "seed": seed}, [([weights], [0.0])], {}))
        simulation = env.windows.simulation(0, build("learned", {"model": str(path)}))
        simulation.run()
        assert all(job.status == FINISHED for job in simulation.jobs)
        means.add(mean_jct_s(simulation.jobs))
    assert 1 < len(means) < 4


@pytest.mark.parametrize("base", ["fifo-backfill", "las:lease_s=600", "dally"])
def test_inspected_starts_that_are_all_accepted_are_the_base_alone(base: str, trace: str) -> None:
    env = make("InspectDecision-v0", trace=trace, cluster="2x2x4", options={"base": base}, window_jobs=30)
    info = played(env, lambda step: 0)
    name, _, setting = base.partition(":")
    settings = dict([setting.split("=")]) if setting else {}
    assert info["jct_mean_s"] == alone(env, name, **settings)


def test_a_start_that_is_put_off_is_proposed_again_and_a_job_not_for_ever(trace: str) -> None:
    env = make(
        "InspectDecision-v0",
        trace=trace,
        cluster="2x2x4",
        options={"base": "fifo", "most_times": 2},
        window_jobs=30,
    )
    rows, info = env.reset(options={"window": 0})
    times = list(env.columns).index("times")
    seen, over = set(), False
    while not over:
        seen.add(round(float(rows[0, times]), 3))
        rows, _, over, _, info = env.step(1)
    assert seen == {0.0, 0.5}, "put off once, put off twice, and then it starts"
    assert np.isfinite(info["jct_mean_s"])
    assert info["jct_mean_s"] > alone(env, "fifo")


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("TunePolicy-v0", {"candidates": "fifo"}, "candidates: must be from 2 to 16, not 1"),
        ("TunePolicy-v0", {"hours": 0.0}, "hours 0: must be above 0"),
        ("TunePolicy-v0", {"hours": 1e5}, "ends within 100000 hours"),
        ("TunePolicy-v0", {"seed": 3}, "is for policies that draw"),
        ("InspectDecision-v0", {"base": "fifo,las"}, "must be one policy"),
        ("InspectDecision-v0", {"base": "learned"}, "must not be a learned policy itself"),
        ("InspectDecision-v0", {"most_times": 0}, "must be 1 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    name: str,
    options: dict[str, Any],
    reason: str,
    trace: str,
) -> None:
    with pytest.raises(InputError, match=reason):
        make(name, trace=trace, cluster="2x2x4", options=options, window_jobs=30).reset(seed=1)


def test_where_a_policy_cannot_be_changed_on_the_way_it_is_refused(trace: str, tmp_path: Path) -> None:
    env = tune_env(trace)
    path = tmp_path / "tuned.json"
    path.write_text(model_text("tune", env.options, [([[0.0] * env.width], [0.0])], {}))
    settings = {"model": str(path)}
    setup = Setup(policy="learned", settings=settings)
    with pytest.raises(InputError, match="changes the policy in use by itself"):
        setup.world(env.windows.topology)
    (tmp_path / "teams.toml").write_text("[queues.a]\nguarantee = 4\n")
    with pytest.raises(InputError, match="without teams alone"):
        policy_for(Built("learned", settings), str(tmp_path / "teams.toml"), [], env.windows.topology, None)
