"""Environments whose steps are single decisions of a run: which job comes next, where it goes, whether now."""

from __future__ import annotations

from typing import Any, Final

from dally.engine.simulate import Simulation
from dally.engine.stepping import DecisionRun
from dally.errors import InputError
from dally.gym.window_env import WindowEnv
from dally.policies.choices.base import Choices
from dally.policies.choices.choosing_policy import ChoosingPolicy

USUAL_BASE: Final = "fifo-backfill:tier=closest"


class DecisionEnv(WindowEnv):
    """A step is one decision of a scheduling pass."""

    _run: DecisionRun

    def _begin(self, window: int) -> Choices:
        policy = self.untrained()
        assert isinstance(policy, ChoosingPolicy)
        self._run = DecisionRun(self.windows.simulation(window, policy), policy)
        if not self._run.advance():
            raise InputError(f"window {window}: has no decision: no job fits the cluster")
        return self._run.choices

    def _go_on(self, action: int) -> tuple[bool, float]:
        self._run.choose(action)
        goes_on = self._run.advance()
        return goes_on, float(self._run.job_s)

    def _outcome(self) -> tuple[Simulation, int]:
        return self._run.simulation, int(self._run.decisions)


class InspectEnv(DecisionEnv):
    """A step is a start that the base policy proposes: to accept it, or to put it off."""

    def __init__(self, decisions: str, *inputs: Any, options: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(decisions, *inputs, options={"base": USUAL_BASE, **(options or {})}, **more)
