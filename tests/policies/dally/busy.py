"""Clusters with gangs at work, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.model import RUNNING, Allocation, Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.dally.context import Context
from dally.policies.dally.limits import Limits
from dally.policies.dally.movable import Movable
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.prediction.hazard import HazardTable
from dally.policies.view import View

NOW_S = 50_000.0
VIEW = View(SpeedModel(), Costs(5.0, 1.0, 600.0))


@dataclass
class Busy:
    """A cluster, who runs on it, and what a policy asks."""

    cluster: Cluster
    running: list[Job] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    order: GittinsOrder = field(default_factory=lambda: GittinsOrder(HazardTable()))

    def __post_init__(self) -> None:
        self.order.begin(VIEW)
        self.context = Context(self.limits, self.order, VIEW)
        self.prices, self.reserved = self.context.prices, self.context.reserved
        self.churn = self.context.churn
        self.churn.begin_pass(0.0, self.cluster.topology.total_gpus())
        self.context.movable = self.movable = Movable(self.churn)  # all may move

    def run(self, parts: list[tuple[int, int]], work_s: float) -> Job:
        """A job at work since long ago on these (machine, GPUs), with so much done."""
        job = Job(len(self.running), f"j{len(self.running)}", 0.0, sum(gpus for _, gpus in parts), 1e9)
        allocation = Allocation(0)
        for machine, gpus in parts:
            allocation.add(machine, gpus)
        allocation.tier = self.cluster.topology.tier_of(allocation)
        job.status, job.allocation, job.tier = RUNNING, allocation, allocation.tier
        job.placed_s, job.since_s, job.rate, job.work_s = 0.0, NOW_S, 1.0, work_s
        self.cluster.take(job, allocation)
        self.running.append(job)
        self.order.ranked(job)
        return job

    def comes(self, gpus: int) -> Job:
        """A job that waits for so many GPUs."""
        return Job(10_000, "new", NOW_S, gpus, 1e9)


@st.composite
def busy_clusters(draw: st.DrawFn, gpus: int = 4) -> Busy:
    """Two or three racks of two or three machines, with gangs of all shapes on them."""
    cluster = Cluster.grid(draw(st.integers(2, 3)), draw(st.integers(2, 3)), gpus)
    found = Busy(cluster)
    machines = cluster.topology.machine_count()
    for _ in range(draw(st.integers(0, 12))):
        chosen = draw(st.lists(st.integers(0, machines - 1), min_size=1, max_size=3, unique=True))
        parts = [(machine, min(draw(st.integers(1, gpus)), int(cluster.free_on(machine)))) for machine in chosen]
        parts = [(machine, held) for machine, held in parts if held > 0]
        if parts:
            found.run(parts, draw(st.sampled_from([0.0, 100.0, 1e4, 1e6])))
    return found
