"""Environments: same seed same bytes, the engine's own runs, masks that hold, rewards that add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dally.errors import InputError
from dally.gym import make
from dally.gym.spaces import HAS_GYMNASIUM
from dally.gym.windows import TraceWindows, mean_jct_s
from dally.runs.scenario import Scenario

CASES = [
    ("OrderJobs-v0", {}, ""),
    ("OrderJobs-v0", {"preempt": True, "knows": "durations"}, "congested"),
    ("PlaceJobs-v0", {}, "congested"),
    ("InspectDecision-v0", {"base": "dally"}, "congested"),
    ("TunePolicy-v0", {"candidates": "fifo,las:lease_s=600,dally", "hours": 0.2}, "congested"),
]
SINGLE = CASES[:4]  # those whose steps are single decisions


def env_of(name: str, trace: str, options: dict[str, Any], network: str, **more: Any) -> Any:
    return make(name, trace=trace, cluster="2x2x4", options=options, network=network, window_jobs=30, **more)


def episode(env: Any, seed: int) -> tuple[list[bytes], float, dict[str, Any]]:
    """A random agent's observations, its return and the last info."""
    drawn = np.random.default_rng(seed)
    rows, info = env.reset(seed=seed)
    seen, gained, over = [rows.tobytes()], 0.0, False
    while not over:
        assert env.observation_space.contains(rows)
        allowed = np.flatnonzero(info["action_mask"])
        rows, reward, over, cut, info = env.step(int(drawn.choice(allowed)))
        assert not cut
        seen.append(rows.tobytes())
        gained += reward
    return seen, gained, info


@pytest.mark.parametrize(("name", "options", "network"), CASES)
def test_a_random_agent_meets_the_rules_and_the_same_seed_gives_the_same_bytes(
    name: str, options: dict[str, Any], network: str, trace: str
) -> None:
    env = env_of(name, trace, options, network)
    for seed in range(3):
        seen, gained, info = episode(env, seed)
        assert gained == pytest.approx(info["gain"], abs=1e-9)
        assert info["gain"] == pytest.approx(1.0 - info["jct_mean_s"] / info["baseline_s"])
        assert info["jct_mean_s"] >= info["bound_s"] * (1 - 1e-9)
        assert seen == episode(env_of(name, trace, options, network), seed)[0]
    assert episode(env, 0)[0] != episode(env, 1)[0]


@pytest.mark.parametrize(("name", "options", "network"), SINGLE)
def test_decisions_made_from_outside_are_the_run_that_the_policy_makes(
    name: str, options: dict[str, Any], network: str, trace: str
) -> None:
    """The environment steered by the policy's own scores ends as the simulator does under that policy."""
    env = env_of(name, trace, options, network)
    _, info = env.reset(options={"window": 1})
    policy = env.untrained()
    over = False
    while not over:
        choices = env._run.choices
        action = policy._scorer.best(choices.rows, choices.width, choices.mask)
        _, _, over, _, info = env.step(action)
    windows = TraceWindows(Scenario(trace, "2x2x4", "fifo", network=network), 30)
    simulation = windows.simulation(1, env.untrained())
    simulation.run()
    assert info["jct_mean_s"] == mean_jct_s(simulation.jobs)


def test_splits_are_apart_in_time(trace: str) -> None:
    ends = []
    for split in ("train", "validation", "test"):
        windows = TraceWindows(Scenario(trace, "2x2x4", "fifo"), 15, split)
        ids = [int(job.job_id[1:]) for number in range(windows.count) for job in windows.jobs(number)]
        assert ids == list(range(ids[0], ids[-1] + 1))
        ends.append((ids[0], ids[-1]))
    assert ends == [(0, 89), (90, 119), (120, 149)]


def test_the_mask_comes_in_three_forms_and_a_masked_action_is_refused(trace: str) -> None:
    env = env_of("OrderJobs-v0", trace, {}, "", masked_observation=True)
    shown, info = env.reset(seed=1)
    assert (shown["action_mask"] == info["action_mask"]).all()
    assert (env.action_masks() == info["action_mask"]).all()
    masked = int(np.flatnonzero(~info["action_mask"])[0])
    with pytest.raises(InputError, match=f"action {masked}: is masked"):
        env.step(masked)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"split": "tests"}, "did you mean 'test'"),
        ({"window_jobs": 200}, "fewer than the 200 of a window"),
        ({"options": {"visible": 1}}, "must be 2 or more"),
        ({"options": {"knows": "all"}}, "must be one of nothing, limits, durations"),
        ({"options": {"depth": 1}}, "depth"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], reason: str, trace: str) -> None:
    with pytest.raises(InputError, match=reason):
        make("OrderJobs-v0", trace=trace, cluster="2x2x4", **{"window_jobs": 30, **fields})
    with pytest.raises(InputError, match="did you mean 'OrderJobs-v0'"):
        make("OrderJob-v0", trace=trace, cluster="2x2x4")


@pytest.mark.skipif(not HAS_GYMNASIUM, reason="gymnasium is not installed")
@pytest.mark.parametrize(("name", "options", "network"), CASES)
def test_gymnasium_finds_nothing_wrong(name: str, options: dict[str, Any], network: str, trace: str) -> None:
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(
        f"dally/{name}", trace=trace, cluster="2x2x4", options=options, network=network, window_jobs=30,
        on_masked="first",
    )  # fmt: skip
    check_env(env.unwrapped, skip_render_check=True)
