"""What a training is of: everything that decides its curve, as the file training.json has it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dally.errors import InputError, unknown
from dally.gym import DECISIONS, make
from dally.gym.window_env import USUAL_BASELINE, WindowEnv


@dataclass(frozen=True)
class TrainingPlan:
    """An environment and how to learn in it."""

    env: str
    trace: str
    cluster: str
    fields: dict[str, Any] = field(default_factory=dict)  # of a scenario
    options: dict[str, Any] = field(default_factory=dict)  # of the decisions
    baseline: str = USUAL_BASELINE
    window_jobs: int = 256
    seed: int = 1
    iterations: int = 50
    episodes: int = 16  # of an iteration
    hidden: int = 32
    rate: float = 4e-3  # falls to a tenth of it
    entropy: float = 0.01  # falls to 0
    decay: float = 0.5  # of generalised advantages, by step: how far ahead a choice is credited
    validate_every: int = 5  # iterations

    def check(self) -> None:
        """InputError for numbers that make no sense."""
        if self.env.removeprefix("dally/") not in DECISIONS:
            raise unknown("environment", self.env, DECISIONS)
        for name in ("window_jobs", "iterations", "episodes", "hidden", "validate_every"):
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be from 1 to 1000000")
        for name in ("rate", "entropy", "decay"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"--{name} {getattr(self, name):g}: must be from 0 to 1")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: must not be negative")

    def make(self, split: str) -> WindowEnv:
        """Its environment on the jobs of that split."""
        return make(
            self.env, trace=self.trace, cluster=self.cluster, options=self.options, baseline=self.baseline,
            split=split, window_jobs=self.window_jobs, **self.fields,
        )  # fmt: skip

    @property
    def decisions(self) -> str:
        """The kind of its decisions, as policy files name it."""
        return DECISIONS[self.env.removeprefix("dally/")]

    def text(self) -> str:
        """The content of training.json."""
        return json.dumps(asdict(self), indent=1) + "\n"


def check_same(plan: TrainingPlan, path: Path, content: dict[str, Any]) -> None:
    """InputError unless the training of that file can go on under the plan; more iterations may be asked for."""
    for item in fields(TrainingPlan):
        before, now = content.get(item.name), getattr(plan, item.name)
        if item.name != "iterations" and before != now:
            raise InputError(
                f"{path}: {item.name}: the training there has {before!r}, not {now!r}: use another --out, "
                "or the same options to go on"
            )
