"""One gang that trains on for long on machines that fail, simulated: what share of its time is work."""

from __future__ import annotations

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.engine.failures import RandomFailures
from dally.engine.simulate import Simulation
from dally.model import Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.registry import policy_of

GPUS = 8  # of a machine


def simulated_share(
    machines: int, failures_per_machine_day: float, every_s: float, checkpoint_s: float, restart_s: float,
    repair_s: float, seed: int, failures: int = 200, more_machines: int = 4,
) -> float:  # fmt: skip
    """Work ÷ time with GPUs of a job that meets about so many failures; `more_machines` stand by.

    The engine's checkpoints take no time: theirs is taken off afterwards, as if work went on during it.
    """
    rate = failures_per_machine_day * machines / 86400.0
    work_s = failures / rate
    stretch_s = every_s + checkpoint_s
    job = Job(0, "gang", 0.0, machines * GPUS, work_s)
    simulation = Simulation(
        [job], Cluster(grid(1, machines + more_machines, GPUS)), policy_of("fifo"), SpeedModel(),
        Costs(restart_s, 0.0, stretch_s), RandomFailures(failures_per_machine_day, repair_s, seed),
    )  # fmt: skip
    simulation.run()
    return work_s / job.held_s * every_s / stretch_s
