"""A mixture of policies: the better candidate is drawn more often, by either method, and the file runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.known_optima import one_machine

from dally.errors import InputError
from dally.gym import make
from dally.gym.tuning import TuneEnv
from dally.gym.windows import mean_jct_s
from dally.learning.mixture import Mixture, train_mixture
from dally.policies.registry import build


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> TuneEnv:
    plan = one_machine(tmp_path_factory.mktemp("mixture"), 400)
    options = {"candidates": "fifo,srtf", "hours": 0.5}
    made = make(
        "TunePolicy-v0", trace=plan.trace, cluster="1x1x1", options=options, baseline="fifo", window_jobs=40,
        restart_per_gpu_s=0.0,
    )  # fmt: skip
    assert isinstance(made, TuneEnv)
    return made


@pytest.mark.parametrize("method", ["gradient", "spsa"])
def test_the_better_of_two_policies_is_drawn_more_often(method: str, env: TuneEnv) -> None:
    mixture = train_mixture(env, method, 1, steps=6)
    assert mixture.shares()[1] > 0.8, "SRPT is optimal there"
    again = train_mixture(env, method, 1, steps=6)
    assert (mixture.weights == again.weights).all()
    assert mixture.gains == again.gains


def test_a_mixture_is_a_policy(env: TuneEnv, tmp_path: Path) -> None:
    means = []
    for name, weights in (("srtf", [-50.0, 50.0]), ("fifo", [50.0, -50.0])):
        path = tmp_path / f"{name}.json"
        path.write_text(Mixture(np.array(weights), [], 0.0).text(env, 1))
        simulation = env.windows.simulation(0, build("learned", {"model": str(path)}))
        simulation.run()
        means.append(mean_jct_s(simulation.jobs))
    assert means[0] < means[1]
    alone = env.windows.simulation(0, build("fifo", {}))
    alone.run()
    assert means[1] == mean_jct_s(alone.jobs)


def test_another_method_is_refused(env: TuneEnv) -> None:
    with pytest.raises(InputError, match="must be gradient or spsa"):
        train_mixture(env, "ppo", 1)
