"""Environments whose steps are single decisions of a run: which job comes next, and where a job goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dally.engine.stepping import DecisionRun
from dally.errors import InputError
from dally.gym.spaces import base_class, box, discrete, table
from dally.gym.windows import Reference, TraceWindows, mean_jct_s
from dally.model import FINISHED
from dally.policies.choices.model_file import first_that_fits, make_choices
from dally.policies.registry import build
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import read_policies

Base: Any = base_class()
USUAL_BASELINE = "fifo-backfill:tier=closest"


class DecisionEnv(Base):  # type: ignore[misc]
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
        seed: int = 0,
        render_mode: str | None = None,
        **fields: Any,
    ) -> None:
        """`fields` are a scenario's (network, mix, restart_s …); `options` are those of the decisions."""
        if render_mode is not None:
            raise InputError(f"render_mode {render_mode!r}: there is none")
        self.render_mode = None
        self.decisions, self.options = decisions, dict(options or {})
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
        self._random = np.random.default_rng(seed)
        self._run: DecisionRun | None = None
        self.window = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first decision of a window: one drawn by the seed, or `options={"window": number}`."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        stated = (options or {}).get("window")
        self.window = int(self._random.integers(self.windows.count)) if stated is None else int(stated)
        if not 0 <= self.window < self.windows.count:
            raise InputError(f"window {self.window}: must be from 0 to {self.windows.count - 1}")
        self.reference = self.reference_of(self.window)
        policy = first_that_fits(make_choices(self.decisions, self.options))
        self._run = DecisionRun(self.windows.simulation(self.window, policy), policy)
        self._cost_unit = self.reference.baseline_s * self.windows.window_jobs
        self._paid_s = 0.0
        if not self._run.advance():
            raise InputError(f"window {self.window}: has no decision: no job fits the cluster")
        return self._observe(), self._info()

    def reference_of(self, window: int) -> Reference:
        """What the baseline makes of a window, and the lower bound."""
        baseline = build(self._baseline.name, self._baseline.settings)
        return self.windows.reference(window, self._baseline.label(), baseline)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take the action, which the mask must allow, and go on to the next decision or to the end."""
        run = self._run
        if run is None:
            raise InputError("step: the episode is over: call reset first")
        if not run.choices.mask[int(action)]:
            raise InputError(f"action {int(action)}: is masked in this step")
        run.choose(int(action))
        goes_on = run.advance()
        reward = (self._paid_s - run.job_s) / self._cost_unit
        self._paid_s = run.job_s
        if goes_on:
            return self._observe(), reward, False, False, self._info()
        info = self._info() | self._figures(run)
        self._run = None
        return self._observe_nothing(), reward + 1.0, True, False, info

    def action_masks(self) -> Any:
        """Which actions are allowed, as sb3-contrib asks for it."""
        return self._mask

    def _observe(self) -> Any:
        assert self._run is not None
        choices = self._run.choices
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

    def _figures(self, run: DecisionRun) -> dict[str, Any]:
        """The episode's outcome."""
        jobs = run.simulation.jobs
        unfinished = sum(job.status != FINISHED for job in jobs)
        if unfinished:
            raise InputError(f"window {self.window}: {unfinished} jobs can never start on this cluster")
        mean_s = mean_jct_s(jobs)
        gain = 1.0 - mean_s / self.reference.baseline_s
        return {"jct_mean_s": mean_s, "gain": gain, "decisions": int(run.decisions)}
