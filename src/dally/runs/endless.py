"""Whether a run under random failures can end."""

from __future__ import annotations

from math import ceil
from typing import Final

from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.model import INFINITY
from dally.runs.scenario import Scenario

DAY_S: Final = 86400.0
HOPELESS: Final = 25.0  # failures to expect where none may be: one attempt in e^25 gets through


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
        gpus, kept_s = int(job.gpus), min(job.checkpoints_s(costs.checkpoint_every_s), job.duration_s)
        needed_s = costs.gang_restart_s(gpus) + kept_s
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
