"""A run from decision to decision: the same engine, for learners that decide from outside."""

from __future__ import annotations

from mypy_extensions import i64

from dally.engine.simulate import Simulation
from dally.policies.choices.base import Choices
from dally.policies.choices.choosing_policy import ChoosingPolicy


class DecisionRun:
    """Call `advance` for the next decision, look at `choices.rows` and `choices.mask`, and `choose`."""

    __slots__ = ("_open", "choices", "decisions", "job_s", "simulation")

    def __init__(self, simulation: Simulation, policy: ChoosingPolicy) -> None:
        """The simulation's policy is this one; its own scores are not asked for."""
        self.simulation: Simulation = simulation
        self.choices: Choices = policy.choices
        self.job_s: float = 0.0  # seconds that all jobs have spent in the system so far, together
        self.decisions: i64 = 0
        self._open: bool = False  # whether a cycle has begun and not ended

    def advance(self) -> bool:
        """Go on to the next decision; False: the run is over."""
        simulation = self.simulation
        choices = self.choices
        while True:
            if self._open:
                if choices.next():
                    if not choices.forced:
                        return True
                    self._take(0)
                    continue
                self._close()
            before_s = simulation.now
            jobs = float(simulation.in_system())
            if not simulation.open_step():
                return False
            self.job_s += (simulation.now - before_s) * jobs
            self._open = True
            state = simulation.state
            choices.open(simulation.now, state.queue, state.cluster)

    def choose(self, choice: i64) -> None:
        """Take that row of the decision at hand."""
        self.decisions += 1
        self._take(choice)

    def _take(self, choice: i64) -> None:
        for action in self.choices.take(choice):
            self.simulation.act(action)

    def _close(self) -> None:
        action = self.choices.close()
        while action is not None:
            self.simulation.act(action)
            action = self.choices.close()
        self.simulation.close_step()
        self._open = False
