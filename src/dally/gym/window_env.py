"""What all environments have in common: windows of a trace, masks in three forms, and the gain as reward."""

from __future__ import annotations

from typing import Any

import numpy as np

from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.gym.spaces import base_class, box, discrete, table
from dally.gym.windows import Reference, TraceWindows, mean_jct_s
from dally.model import FINISHED
from dally.policies.base import Policy
from dally.policies.choices.base import Choices
from dally.policies.choices.model_file import choosing_policy, make_choices, untrained
from dally.policies.choices.scorer import Scorer
from dally.policies.registry import build
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import read_policies

Base: Any = base_class()
USUAL_BASELINE = "fifo-backfill:tier=closest"


class WindowEnv(Base):  # type: ignore[misc]
    """An episode is a window of a trace. Its reward adds up to 1 − mean JCT ÷ the baseline's on the same jobs.

    Each step costs the time that all jobs spent in the system since the last, ÷ what they spend under the baseline;
    the last step also brings 1. `info` has the action mask, and after the end the figures of the episode.
    """

    def __init__(
        self,
        decisions: str,
        trace: str,
        cluster: str,
        *,
        options: dict[str, Any] | None = None,
        baseline: str = USUAL_BASELINE,
        split: str = "train",
        window_jobs: int = 256,
        masked_observation: bool = False,
        on_masked: str = "refuse",
        seed: int = 0,
        render_mode: str | None = None,
        **fields: Any,
    ) -> None:
        """`fields` are a scenario's (network, mix, restart_s …); `options` are those of the decisions.

        `on_masked="first"` takes an action that the mask forbids for the first that it allows.
        """
        if render_mode is not None:
            raise InputError(f"render_mode {render_mode!r}: there is none")
        if on_masked not in ("refuse", "first"):
            raise InputError(f"on_masked {on_masked!r}: must be refuse or first")
        self._on_masked = on_masked
        self.render_mode = None
        self.decisions, self.options = decisions, with_policies(dict(options or {}))
        self._baseline = read_policies([baseline])[0]
        self.windows = TraceWindows(Scenario(trace, cluster, "fifo", **fields), window_jobs, split)
        choices = make_choices(decisions, self.options)
        self.rows, self.width = int(choices.visible) + 1, int(choices.width)
        self.columns = choices.columns
        self._masked = masked_observation
        rows = box(-10.0, 10.0, (self.rows, self.width))
        self.observation_space = (
            table({"observations": rows, "action_mask": box(0.0, 1.0, (self.rows,))})
            if masked_observation
            else rows
        )
        self.action_space = discrete(self.rows)
        self.np_random = np.random.default_rng(seed)
        self._choices: Choices | None = None  # of the episode under way
        self.window = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first decision of a window: one drawn by the seed, or `options={"window": number}`."""
        super().reset(seed=seed)
        stated = (options or {}).get("window")
        self.window = int(self.np_random.integers(self.windows.count)) if stated is None else int(stated)
        if not 0 <= self.window < self.windows.count:
            raise InputError(f"window {self.window}: must be from 0 to {self.windows.count - 1}")
        self.reference = self.reference_of(self.window)
        self._cost_unit = self.reference.baseline_s * self.windows.window_jobs
        self._paid_s = 0.0
        self._choices = self._begin(self.window)
        return self._observe(self._choices), self._info()

    def reference_of(self, window: int) -> Reference:
        """What the baseline makes of a window, and the lower bound."""
        baseline = build(self._baseline.name, self._baseline.settings)
        return self.windows.reference(window, self._baseline.label(), baseline)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take the action, which the mask must allow, and go on to the next decision or to the end."""
        choices = self._choices
        if choices is None:
            raise InputError("step: the episode is over: call reset first")
        chosen = int(action)
        if not self._mask[chosen]:
            if self._on_masked == "refuse":
                raise InputError(f"action {chosen}: is masked in this step")
            chosen = int(self._mask.argmax())
        goes_on, job_s = self._go_on(chosen)
        reward = (self._paid_s - job_s) / self._cost_unit
        self._paid_s = job_s
        if goes_on:
            return self._observe(choices), reward, False, False, self._info()
        info = self._info() | self._figures()
        self._choices = None
        return self._observe_nothing(), reward + 1.0, True, False, info

    def action_masks(self) -> Any:
        """Which actions are allowed, as sb3-contrib asks for it."""
        return self._mask

    def untrained(self) -> Policy:
        """The policy that nobody trained."""
        return untrained(make_choices(self.decisions, self.options), self.options)

    def policy(self, scorer: Scorer) -> Policy:
        """The policy that decides by these scores, as `--policy learned` runs it."""
        return choosing_policy(make_choices(self.decisions, self.options), scorer, self.options)

    def _begin(self, window: int) -> Choices:
        """Start the run of that window and go on to its first decision."""
        raise NotImplementedError

    def _go_on(self, action: int) -> tuple[bool, float]:
        """Whether there is another decision after that action, and the seconds of all jobs in the system so far."""
        raise NotImplementedError

    def _outcome(self) -> tuple[Simulation, int]:
        """The run that is over, and the number of its decisions."""
        raise NotImplementedError

    def _observe(self, choices: Choices) -> Any:
        rows = np.fromiter(choices.rows, np.float32, self.rows * self.width).reshape(self.rows, self.width)
        self._mask = np.fromiter(choices.mask, np.bool_, self.rows)
        return self._shown(rows)

    def _observe_nothing(self) -> Any:
        self._mask = np.zeros(self.rows, np.bool_)
        return self._shown(np.zeros((self.rows, self.width), np.float32))

    def _shown(self, rows: Any) -> Any:
        if self._masked:
            return {"observations": rows, "action_mask": self._mask.astype(np.float32)}
        return rows

    def _info(self) -> dict[str, Any]:
        return {
            "action_mask": self._mask, "window": self.window, "baseline_s": self.reference.baseline_s,
            "bound_s": self.reference.bound_s,
        }  # fmt: skip

    def _figures(self) -> dict[str, Any]:
        """The episode's outcome."""
        simulation, decisions = self._outcome()
        jobs = simulation.jobs
        unfinished = sum(job.status != FINISHED for job in jobs)
        if unfinished:
            raise InputError(f"window {self.window}: {unfinished} jobs can never start on this cluster")
        mean_s = mean_jct_s(jobs)
        gain = 1.0 - mean_s / self.reference.baseline_s
        return {"jct_mean_s": mean_s, "gain": gain, "decisions": decisions}


def with_policies(options: dict[str, Any]) -> dict[str, Any]:
    """Policies among the options as pairs of a name and settings, where they are named as on the command line."""
    for key in ("base", "candidates"):
        if isinstance(options.get(key), str):
            pairs = [[one.name, dict(one.settings)] for one in read_policies([options[key]])]
            if key == "base" and len(pairs) != 1:
                raise InputError(f"base {options[key]!r}: must be one policy")
            options[key] = pairs[0] if key == "base" else pairs
    return options
