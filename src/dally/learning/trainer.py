"""A training from its plan: iterations of episodes and updates, a checkpoint after each, the best policy so far."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Final, NamedTuple

import numpy as np

from dally.errors import InputError
from dally.gym.window_env import WindowEnv
from dally.gym.windows import mean_jct_s
from dally.input_file import read_text
from dally.learning.actor_critic import Adam, Array, Scale, actor_layers, fresh_parameters, scale_of
from dally.learning.collecting import Collector
from dally.learning.ppo import StepSizes, play, update
from dally.learning.training_plan import TrainingPlan, check_same
from dally.parsed_text import parse_json
from dally.policies.choices.model_file import model_text
from dally.policies.choices.scorer import Layer, Scorer
from dally.whole_file import write_whole

CHECKPOINT: Final = "checkpoint.npz"
CURVE: Final = ("iteration", "steps", "gain", "entropy", "value_loss", "clipped", "validation_gain")
MOST_VALIDATED: Final = 16  # windows
MEASURED: Final = 4  # episodes


class HeldOut(NamedTuple):
    """Means over windows of what a policy reached: gain over the baseline, and mean JCT ÷ the lower bound."""

    gain: float
    over_bound: float
    windows: int


class Trainer:
    """Where a training has got to. All of it is in the checkpoint, from which a killed one goes on."""

    def __init__(self, plan: TrainingPlan, out: Path) -> None:
        plan.check()
        self.plan, self.out = plan, out
        self._train, self._validation = plan.make("train"), plan.make("validation")
        width = self._validation.width
        self.parameters = fresh_parameters(width, plan.hidden, plan.seed)
        self.best = dict(self.parameters)
        self.best_gain = -float("inf")
        self.adam = Adam.fresh(self.parameters)
        self.scale = Scale(np.zeros(width), np.ones(width))
        self.iteration = 0
        self.cpu_s = 0.0
        self.curve: list[list[float]] = []
        if (out / CHECKPOINT).exists():
            self._restore(out / CHECKPOINT)

    def run(self, collector: Collector, report: Callable[[Trainer], None] | None = None) -> None:
        """Go on to the last iteration."""
        self.out.mkdir(parents=True, exist_ok=True)
        while self.iteration < self.plan.iterations:
            began_s = process_time()
            self._iterate(collector)
            self.cpu_s += process_time() - began_s
            self.save()
            if report is not None:
                report(self)

    def _iterate(self, collector: Collector) -> None:
        plan, number = self.plan, self.iteration
        left = 1.0 - number / plan.iterations
        seeds = [(plan.seed, number, episode) for episode in range(plan.episodes)]
        if number == 0:
            self.scale = self._measured_scale()
        rollouts = collector.collect(self.parameters, self.scale, seeds)
        pace = StepSizes(plan.rate * (0.1 + 0.9 * left), plan.entropy * left, plan.decay)
        done = update(self.parameters, self.adam, rollouts, pace, [plan.seed, number, 7])
        self.iteration = number + 1
        steps = sum(len(rollout.actions) for rollout in rollouts)
        gain = float(np.mean([rollout.gain for rollout in rollouts]))
        validated = float("nan")
        if self.iteration % plan.validate_every == 0 or self.iteration == plan.iterations:
            validated = judged(self._validation, self.parameters, self.scale, MOST_VALIDATED).gain
            if validated > self.best_gain:
                self.best_gain, self.best = validated, dict(self.parameters)
        self.curve.append([self.iteration, steps, gain, *done, validated])

    def _measured_scale(self) -> Scale:
        """The scale of a few episodes with nearly even choices."""
        seeds = [(self.plan.seed, 1 << 20, episode) for episode in range(MEASURED)]
        played = [play(self._train, self.parameters, self.scale, seed) for seed in seeds]
        rows, mask = (np.concatenate([one[field] for one in played]) for field in range(2))
        return scale_of(rows, mask)

    def save(self) -> None:
        """Write the checkpoint, the plan, the curve and the best policy, each whole or not at all."""
        arrays: dict[str, Array] = {"curve": np.array(self.curve)}
        for name, value in self.parameters.items():
            arrays |= {
                f"now.{name}": value, f"best.{name}": self.best[name], f"mean.{name}": self.adam.mean[name],
                f"square.{name}": self.adam.square[name],
            }  # fmt: skip
        arrays["numbers"] = np.array([self.iteration, self.adam.steps, self.best_gain, self.cpu_s])
        arrays |= {"scale.mean": self.scale.mean, "scale.spread": self.scale.spread}
        raw = io.BytesIO()
        np.savez(raw, **arrays)
        write_whole(self.out / "training.json", self.plan.text().encode())
        write_whole(self.out / CHECKPOINT, raw.getvalue())
        lines = [",".join(f"{value:.10g}" for value in row) for row in self.curve]
        write_whole(self.out / "curve.csv", ("\n".join([",".join(CURVE), *lines]) + "\n").encode())
        write_whole(self.out / "policy.json", self.policy_text().encode())

    def policy_text(self) -> str:
        """The best policy so far, as a file."""
        plan = self.plan
        about = {
            "env": plan.env,
            "seed": plan.seed,
            "iterations": self.iteration,
            "validation_gain": self.best_gain,
        }
        return model_text(plan.decisions, self._validation.options, actor_layers(self.best, self.scale), about)

    def _restore(self, path: Path) -> None:
        stated = self.out / "training.json"
        try:
            content = parse_json(stated, read_text(stated))
            with np.load(path, allow_pickle=False) as arrays:
                held = {name: arrays[name] for name in arrays.files}
            curve, numbers = held["curve"], held["numbers"]
            self.scale = Scale(held["scale.mean"], held["scale.spread"])
            for name in self.parameters:
                self.parameters[name], self.best[name] = held[f"now.{name}"], held[f"best.{name}"]
                self.adam.mean[name], self.adam.square[name] = held[f"mean.{name}"], held[f"square.{name}"]
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise InputError(f"{path}: cannot be gone on with: {error}") from None
        check_same(self.plan, stated, content)
        self.curve = curve.tolist()
        self.iteration, self.adam.steps = int(numbers[0]), int(numbers[1])
        self.best_gain, self.cpu_s = float(numbers[2]), float(numbers[3])
        if content["iterations"] != self.plan.iterations and self.iteration > 0:
            raise InputError(
                f"{stated}: iterations: the training there has {content['iterations']}, on which its rates depend, "
                f"not {self.plan.iterations}"
            )


def judged(env: WindowEnv, parameters: dict[str, Array], scale: Scale, most: int = 1_000_000) -> HeldOut:
    """What the best choices reach on the first windows of the environment's split, in the simulator itself."""
    windows = env.windows
    count = min(most, windows.count)
    gain = over = 0.0
    for number in range(count):
        policy = env.policy(scorer_of(parameters, scale))
        simulation = windows.simulation(number, policy)
        simulation.run()
        reference = env.reference_of(number)
        mean_s = mean_jct_s(simulation.jobs)
        gain += 1.0 - mean_s / reference.baseline_s
        over += mean_s / reference.bound_s
    return HeldOut(gain / count, over / count, count)


def scorer_of(parameters: dict[str, Array], scale: Scale) -> Scorer:
    """The scores of these weights, for rows as they are."""
    return Scorer([Layer(weights, biases) for weights, biases in actor_layers(parameters, scale)])
