"""Training: known optima, the same curve after a kill and with any number of workers, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from benchmarks.known_optima import one_machine, two_racks

from dally.errors import InputError
from dally.learning.actor_critic import ACTOR, CRITIC, backward, forward, fresh_parameters, log_odds
from dally.learning.collecting import CollectHere, CollectInProcesses
from dally.learning.ppo import _slopes
from dally.learning.trainer import Trainer, judged
from dally.learning.training_plan import TrainingPlan
from dally.policies.registry import build


def train(plan: TrainingPlan, out: Path) -> Trainer:
    training = Trainer(plan, out)
    training.run(CollectHere(plan))
    return training


def test_gradients_are_those_of_differences() -> None:
    drawn = np.random.default_rng(1)
    parameters = fresh_parameters(3, 4, 1)
    parameters |= {"w3": drawn.normal(size=(4, 1)), "b2": drawn.normal(size=4)}
    rows, mask = drawn.normal(size=(5, 4, 3)), drawn.random((5, 4)) < 0.7
    mask[:, 0] = True
    actions, advantages, returns = np.zeros(5, int), drawn.normal(size=5), drawn.normal(size=5)
    before = log_odds(forward(parameters, ACTOR, rows).output[..., 0], mask)[np.arange(5), actions] - 0.01

    def loss() -> float:
        odds = log_odds(forward(parameters, ACTOR, rows).output[..., 0], mask)
        ratio = np.exp(odds[np.arange(5), actions] - before)
        entropy = -np.where(mask, np.exp(odds) * odds, 0.0).sum(axis=1)
        return float((-ratio * advantages - 0.1 * entropy).mean())

    slopes, _ = _slopes(parameters, rows, mask, actions, before, advantages, returns, 0.1)
    for name in ("w1", "b2", "w3"):
        place = (1,) * parameters[name].ndim if parameters[name].shape[-1] > 1 else (1, 0)
        parameters[name][place] += 1e-6
        above = loss()
        parameters[name][place] -= 2e-6
        below = loss()
        parameters[name][place] += 1e-6
        assert slopes[name][place] == pytest.approx((above - below) / 2e-6, abs=1e-6)
    assert {name for pair in (*ACTOR, *CRITIC) for name in pair} == set(slopes)
    assert backward(
        parameters, CRITIC, forward(parameters, CRITIC, rows[:, 0, :].repeat(2, axis=1)), np.ones((5, 1))
    )


def test_a_small_training_comes_near_the_known_optimum_of_one_machine(tmp_path: Path) -> None:
    """`python -m benchmarks.known_optima` trains longer, to within 2 %."""
    plan = one_machine(tmp_path, 1500, iterations=10, episodes=8, validate_every=5)
    training = train(plan, tmp_path / "out")
    test = plan.make("test")
    untrained = judged(test, Trainer(plan, tmp_path / "other").parameters, training.scale)
    trained = judged(test, training.best, training.scale)
    assert trained.over_bound < 1.2
    assert trained.over_bound < untrained.over_bound - 0.1


def test_the_right_domain_of_a_small_tree_is_learned(tmp_path: Path) -> None:
    plan = two_racks(tmp_path, 600, iterations=6, episodes=6, validate_every=2)
    training = train(plan, tmp_path / "out")
    assert judged(plan.make("test"), training.best, training.scale).over_bound < 1.02
    assert training.curve[0][2] < -0.02, "at first gangs are scattered"


def test_the_exported_policy_is_the_one_that_was_judged(tmp_path: Path) -> None:
    plan = one_machine(tmp_path, 600, iterations=2, episodes=2)
    training = train(plan, tmp_path / "out")
    env = plan.make("validation")
    simulation = env.windows.simulation(0, build("learned", {"model": str(tmp_path / "out" / "policy.json")}))
    simulation.run()
    mean_s = sum(job.finish_s - job.submit_s for job in simulation.jobs) / 50
    gain = judged(env, training.best, training.scale, 1).gain
    assert gain == pytest.approx(1.0 - mean_s / env.reference_of(0).baseline_s, abs=1e-12)


def test_a_training_that_stopped_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    plan = one_machine(tmp_path, 600, iterations=4, episodes=3, validate_every=2)
    train(plan, tmp_path / "whole")

    class StoppedError(Exception):
        pass

    def stop(training: Trainer) -> None:
        if training.iteration == 2:
            raise StoppedError

    for _ in range(2):  # stopped, and started again
        training = Trainer(plan, tmp_path / "parts")
        if training.iteration == 0:
            with pytest.raises(StoppedError):
                training.run(CollectHere(plan), stop)
        else:
            training.run(CollectHere(plan))
    for name in ("curve.csv", "policy.json", "training.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_killed_command_goes_on_and_two_workers_give_the_same_curve(tmp_path: Path) -> None:
    plan = one_machine(tmp_path, 600, iterations=6, episodes=4)
    command = [
        sys.executable, "-m", "dally", "train", "--trace", plan.trace, "--cluster", "1x1x1", "--baseline", "fifo",
        "--restart-per-gpu-s", "0", "--option", "preempt=on", "--option", "knows=durations", "--window-jobs", "50",
        "--iterations", "6", "--episodes", "4", "--json", "--out", str(tmp_path / "killed"),
    ]  # fmt: skip
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "killed" / "curve.csv").exists():
        assert first.poll() is None or first.returncode == 0
        sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["iterations"] == 6
    players = CollectInProcesses(plan, 2)
    try:
        Trainer(plan, tmp_path / "two").run(players)
    finally:
        players.close()
    curves = [(tmp_path / name / "curve.csv").read_text() for name in ("killed", "two")]
    assert curves[0] == curves[1]
    assert len(curves[0].splitlines()) == 7


def test_another_plan_does_not_go_on_with_a_training(tmp_path: Path) -> None:
    plan = one_machine(tmp_path, 600, iterations=1, episodes=1)
    train(plan, tmp_path / "out")
    with pytest.raises(InputError, match="hidden: the training there has 32, not 16"):
        Trainer(replace(plan, hidden=16), tmp_path / "out")
    with pytest.raises(InputError, match="iterations: the training there has 1"):
        Trainer(replace(plan, iterations=9), tmp_path / "out")
    (tmp_path / "out" / "checkpoint.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"checkpoint.npz: cannot be gone on with"):
        Trainer(plan, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"env": "OrderJob-v0"}, "did you mean 'OrderJobs-v0'"),
        ({"iterations": 0}, "--iterations 0: must be from 1"),
        ({"rate": float("nan")}, "--rate nan: must be from 0 to 1"),
        ({"seed": -1}, "--seed -1: must not be negative"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        replace(TrainingPlan("OrderJobs-v0", "none.csv", "1x1x1"), **change).check()  # type: ignore[arg-type]
