"""Whether a run can come to its end: its clock keeps time, and failures leave jobs time to work."""

from __future__ import annotations

from math import ceil, ulp
from typing import Final

from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.model import INFINITY, NEVER
from dally.policies.registry import periods_s
from dally.runs.scenario import Scenario

STEPS: Final = 256  # of the clock, in the shortest period: waiting and slow links put the end off that far at most
DAY_S: Final = 86400.0
HOPELESS: Final = 25.0  # failures to expect where none may be: one attempt in e^25 gets through


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


def check_end(simulation: Simulation, scenario: Scenario) -> None:
    """InputError for a job whose machines fail so often that it never gets on; --until ends any run."""
    jobs = simulation.jobs
    if not scenario.failure_rate or scenario.until_s < INFINITY or not jobs:
        return
    costs = simulation.state.costs
    largest = max(simulation.state.cluster.topology.gpus[0])
    longest_s = max(job.duration_s for job in jobs)
    most = max(int(job.gpus) for job in jobs)
    if _failures(scenario, most, largest, longest_s) <= HOPELESS:
        return
    for job in jobs:
        gpus, checkpoint_s = int(job.gpus), min(job.checkpoints_s(costs.checkpoint_every_s), job.duration_s)
        needed_s = costs.gang_restart_s(gpus) + checkpoint_s
        if _failures(scenario, gpus, largest, min(needed_s, job.duration_s)) > HOPELESS:
            often_s = DAY_S / scenario.failure_rate / ceil(gpus / largest)
            raise InputError(
                f"--failure-rate {scenario.failure_rate:g}: job {job.job_id!r} would never end: its machines fail "
                f"every {often_s:.3g} s, and it needs {needed_s:g} s without a failure to restart and to get to "
                "a checkpoint; fewer failures, --checkpoint-every or --until"
            )


def _failures(scenario: Scenario, gpus: int, largest: int, during_s: float) -> float:
    """How many failures a gang has to expect in that time."""
    return scenario.failure_rate * ceil(gpus / largest) * during_s / DAY_S
