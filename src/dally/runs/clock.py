"""Whether the clock can keep time: far from zero, a float does not move on by a short while."""

from __future__ import annotations

from math import ulp
from typing import Final

from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.model import NEVER
from dally.policies.registry import periods_s
from dally.runs.scenario import Scenario

STEPS: Final = 256  # of the clock, in the shortest period: waiting and slow links put the end off that far at most


def check_clock(simulation: Simulation, scenario: Scenario) -> None:
    """InputError for a lease, a slice or a repair so short that `t + lease == t` before the run is over."""
    step_s = ulp(_end_s(simulation, scenario))
    periods = {f"--set {key}": value for key, value in periods_s(scenario.policy, scenario.settings).items()}
    periods.setdefault("--set lease_s", simulation.state.policy.lease_s)  # of a policy that states none
    if scenario.failure_rate:
        periods["--repair-s"] = scenario.repair_s
    for option, value in periods.items():
        if value < STEPS * step_s:
            raise InputError(
                f"{option}={value:g}: too short for the clock of {scenario.trace or scenario.snapshot}: its times "
                f"may be {step_s:g} s apart; at least {STEPS * step_s:g}, or times that begin at 0"
            )


def _end_s(simulation: Simulation, scenario: Scenario) -> float:
    """When the run may end, jobs one after the other."""
    jobs = simulation.jobs
    busy_s = sum(job.duration_s for job in jobs if job.duration_s != NEVER)
    return min(max(jobs[-1].submit_s, simulation.now) + busy_s, scenario.until_s) if jobs else 0.0
