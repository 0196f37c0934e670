"""Who shares links with whom: the gangs across machines at moments of simulated runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.perf.reference_adadual import adadual_iteration_s
from tests.perf.reference_sharing import shared_iteration_s

from dally.benchmark.cells import Cell, prepare
from dally.perf.contention import Contention
from dally.perf.iteration import Demand
from dally.perf.network_model import NetworkModel
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload

SHARED = Path(__file__).resolve().parents[2] / "shared"
RECIPE, WORKLOAD, CLUSTER = "venus-like", WorkloadRequest(seed=1, jobs=5000, load=1.0, gpus=640), "10x8x8"
FIRST_S, EVERY_S = 4 * 86400.0, 2 * 86400.0


class Error(NamedTuple):
    """One gang of a snapshot: how far off the model is, and how full its fullest shared link would be quiet."""

    relative: float
    ignored: float  # the same for a model that ignores the others
    offered: float  # seconds of work a second, when nobody slows anybody


@dataclass
class Snapshot:
    """The gangs at one moment, and what each has left to do, in GPU-seconds."""

    links: int
    demands: list[Demand]
    ranks: list[float]

    def parts(self) -> Iterator[Snapshot]:
        """The gangs that reach each other over links, part by part; those alone are left out."""
        left = set(range(len(self.demands)))
        while left:
            part, grown = {min(left)}, True
            while grown:
                links = {int(link) for place in part for link in self.demands[place].cost.links}
                near = {place for place in left if not links.isdisjoint(map(int, self.demands[place].cost.links))}
                grown, part = not near <= part, near | part
            left -= part
            if len(part) > 1:
                chosen = sorted(part)
                yield Snapshot(self.links, [self.demands[at] for at in chosen], [self.ranks[at] for at in chosen])

    def offered(self, place: int) -> float:
        """The load of the fullest link that a gang shares, if all ran as if alone."""
        loads: dict[int, list[float]] = {}
        for demand in self.demands:
            for link, seconds in zip(demand.cost.links, demand.cost.seconds, strict=True):
                loads.setdefault(int(link), []).append(seconds / demand.iteration_s(demand.alone_s))
        own = [loads[int(link)] for link in self.demands[place].cost.links]
        return max((sum(found) for found in own if len(found) > 1), default=0.0)

    def errors(self, contention: Contention, rounds: int, adadual: bool = False) -> Iterator[Error]:
        """The model's errors in iteration time against an event-by-event run of these gangs."""
        rng = random.Random(1)
        alone_s = [demand.iteration_s(demand.alone_s) for demand in self.demands]
        starts = [rng.uniform(0.0, seconds) for seconds in alone_s]
        if adadual:
            exact_s = adadual_iteration_s(self.demands, starts, rounds, self.ranks)
        else:
            exact_s = shared_iteration_s(self.demands, starts, rounds)
        for place, demand in enumerate(self.demands):
            contention.add(place, demand, self.ranks[place])
        for place, seconds in enumerate(exact_s):
            found = contention.iteration_s(place) / seconds - 1.0
            yield Error(found, alone_s[place] / seconds - 1.0, self.offered(place))


def generated(network: str, policy: str, count: int) -> list[Snapshot]:
    """Snapshots of a generated workload: no data needed."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "jobs.csv"
        write_workload(trace, generate(find_recipe(RECIPE), WORKLOAD))
        return list(_taken(Scenario(str(trace), CLUSTER, policy, network=network), count))


def of_cell(workload: str, network: str, policy: str, count: int) -> list[Snapshot]:
    """Snapshots of a benchmark cell, whose trace is in `shared`."""
    with TemporaryDirectory() as folder:
        prepared = prepare(workload, 1, SHARED, Path(folder))
        return list(_taken(Cell(workload, network, 1).scenario(prepared, policy, {}), count))


def _taken(scenario: Scenario, count: int) -> Iterator[Snapshot]:
    simulation, _ = assemble(scenario)
    speed = simulation.state.speed
    assert isinstance(speed, NetworkModel)
    network = simulation.state.cluster.network
    assert network is not None
    due_s = FIRST_S
    while count and simulation.step():
        if simulation.now < due_s:
            continue
        gangs = [(job, job.allocation) for job in simulation.jobs if job.allocation is not None]
        gangs = [(job, allocation) for job, allocation in gangs if len(allocation.machines) > 1]
        if gangs:
            count -= 1
            due_s = simulation.now + EVERY_S
            yield Snapshot(
                int(network.link_count()),
                [speed.demand(job, allocation) for job, allocation in gangs],
                [(job.duration_s - job.work_s) * int(job.gpus) for job, _ in gangs],
            )
