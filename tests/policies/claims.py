"""Small workloads on which claims of papers are checked: heavy-tailed jobs, drawn by seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from dally.cluster.capacity import Cluster
from dally.cluster.spec import connect_topology, quiet
from dally.cluster.topology import grid
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import INFINITY, Costs, Job
from dally.perf.base import SpeedModel
from dally.perf.network_model import NetworkModel
from dally.perf.profiles import Steps
from dally.policies.base import Policy
from dally.policies.registry import policy_of


class Ask(NamedTuple):
    """A job to come."""

    submit_s: float
    gpus: int
    duration_s: float
    model: str = "resnet50"


def heavy_tailed(
    seed: int, jobs: int, every_s: float, sizes: Sequence[int] = (1, 2, 4, 8), models: Sequence[str] = ("resnet50",)
) -> list[Ask]:
    """Jobs that come at random, one every so many seconds, most of them short and a few very long."""
    draw = Random(seed)
    now = 0.0
    asks: list[Ask] = []
    for _ in range(jobs):
        now += draw.expovariate(1.0 / every_s)
        duration_s = min(10.0 + draw.lognormvariate(5.5, 1.8), 40_000.0)
        asks.append(Ask(now, draw.choice(sizes), duration_s, draw.choice(models)))
    return asks


def run(
    policy: str | Policy,
    asks: Sequence[Ask],
    cluster: tuple[int, int, int] = (2, 4, 4),
    network: str = "",
    restart_s: float = 0.0,
    until_s: float = INFINITY,
    **settings: object,
) -> Simulation:
    """The run of these jobs on racks x machines x GPUs."""
    chosen = policy_of(policy, settings)
    topology = grid(*cluster)
    links = connect_topology(topology, network, {}, "")
    speed = SpeedModel()
    speed.profiles = Steps()
    still = quiet(topology, network, {}) if links is not None else None
    if links is not None and still is not None:
        speed = NetworkModel(links, still, Steps(), chosen.link_sharing)
    jobs = [
        Job(index, f"j{index}", ask.submit_s, ask.gpus, ask.duration_s, ask.model) for index, ask in enumerate(asks)
    ]
    simulation = Simulation(jobs, Cluster(topology, links), chosen, speed, Costs(restart_s, 0.0, 0.0), Failures())
    simulation.run(until_s)
    return simulation


def mean_jct_s(simulation: Simulation) -> float:
    """The mean completion time of its jobs, all of which must have finished."""
    times_s = [job.finish_s - job.submit_s for job in simulation.jobs]
    assert all(time_s >= 0.0 for time_s in times_s)
    return sum(times_s) / len(times_s)
