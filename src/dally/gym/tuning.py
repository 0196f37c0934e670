"""The environment whose steps are hours: which policy, or which settings of one, decide until the next step."""

from __future__ import annotations

from typing import Any, Final

from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.gym.window_env import WindowEnv
from dally.policies.choices.base import Choices
from dally.policies.choices.model_file import make_choices
from dally.policies.choices.tune_choices import TuneChoices
from dally.policies.choices.tuning_policy import TuningPolicy

# The flagship as it is, and with settings that move its schedules: how far ranks go by size, how much the history
# of jobs like these weighs, how much running jobs are favoured, and how long they are protected.
USUAL_CANDIDATES: Final = (
    "dally,dally:gpu_power=0.6,dally:gpu_power=1.2,dally:weight=2,dally:weight=40,dally:stick=0.35,dally:hold=40"
)


class TuneEnv(WindowEnv):
    """The run goes on from where it is, under the candidate of the action; the first decides in the first hours."""

    def __init__(self, decisions: str, *inputs: Any, options: dict[str, Any] | None = None, **more: Any) -> None:
        stated = {"candidates": USUAL_CANDIDATES, **(options or {})}
        if "seed" in stated:
            raise InputError("options: seed: is for policies that draw, as a mixture; a learner chooses itself")
        super().__init__(decisions, *inputs, options=stated, **more)

    def _begin(self, window: int) -> Choices:
        choices = make_choices(self.decisions, self.options)
        assert isinstance(choices, TuneChoices)
        self._steps = 0
        self._run = self.windows.simulation(window, TuningPolicy(choices))
        if not self._advance():
            raise InputError(
                f"window {window}: ends within {choices.window_s / 3600.0:g} hours: state more window_jobs, or "
                "fewer hours"
            )
        return choices

    def _go_on(self, action: int) -> tuple[bool, float]:
        self._steps += 1
        simulation = self._run
        policy = simulation.state.policy
        assert isinstance(policy, TuningPolicy)
        policy.go_on_with(action)
        if policy.successor is not None:
            simulation.change_policy(policy.successor)
        goes_on = self._advance()
        return goes_on, self._job_s()

    def _advance(self) -> bool:
        """Go on to the end of the next window; False: the run is over."""
        simulation = self._run
        while simulation.state.finished < len(simulation.jobs) and simulation.step():
            policy = simulation.state.policy
            assert isinstance(policy, TuningPolicy)
            if policy.due:
                return True
        return False

    def _job_s(self) -> float:
        """Seconds that all jobs have spent in the system so far, together."""
        now = self._run.now
        return sum(
            (job.finish_s if job.finish_s >= 0.0 else now) - job.submit_s
            for job in self._run.jobs
            if job.submit_s <= now
        )

    def _outcome(self) -> tuple[Simulation, int]:
        return self._run, self._steps
