"""Tiresias and Gandiva as the public simulator of the Dally paper's first author has them.

The paper's figures were measured against these, not against the schedulers of the two papers: see `tiresias` and
`gandiva` for those. What is here follows from facts read from that simulator (docs/as-published.md).
"""

from __future__ import annotations

from random import Random
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job, make_allocation
from dally.policies.base import Param, Policy
from dally.policies.consolidating import ConsolidatingPolicy
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.gandiva import GandivaPolicy
from dally.policies.ordering.base import Order
from dally.policies.ordering.simple import LeastAttained
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit
from dally.policies.preemption.rules import LEASE, LeasePreemption
from dally.policies.settings import Settings

SKEWED: Final = ("vgg", "alexnet", "mobilenetv3")  # models that its Tiresias keeps together, by name
NEVER_STARTED: Final = 1e18  # after every moment of a run


@mypyc_attr(allow_interpreted_subclasses=True)
class SkewByName(Placement):
    """One machine, else one rack, else several: as the model's name and the number of free GPUs allow.

    A rack: if the model is not skewed, or the cluster has a machine's worth of GPUs free. That is nearly always so:
    skewed gangs that fit a machine leave it. Several racks: if the model is not skewed or the gang exceeds a rack.
    """

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def is_skewed(self, job: Job) -> bool:
        """Whether the model is one of those that the simulator lists."""
        skewed = self._known.get(job.model)
        if skewed is None:
            plain = "".join(letter for letter in job.model.lower() if letter.isalnum())
            skewed = plain.startswith(SKEWED)
            self._known[job.model] = skewed
        return skewed

    def kind(self, job: Job) -> int:
        return 1 if self.is_skewed(job) else 0

    def widest(self, job: Job, cluster: Cluster) -> i64:
        if not self.is_skewed(job):
            return cluster.root
        closest = cluster.closest_tier(job)
        rack: i64 = 1 if cluster.root > 1 else 0
        free_enough = cluster.free_gpus + 1 > cluster.topology.gpus[0][0]
        return rack if closest <= rack and free_enough else closest

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        for tier in range(self.widest(job, cluster) + 1):
            allocation = best_fit(cluster, tier, job.gpus, job.group)
            if allocation is not None:
                return allocation
        return None


class LatestStart(Order):
    """The job that started latest comes first; those that never started come last, by submission."""

    def key(self, job: Job, now: float) -> float:
        return -job.start_s if job.start_s >= 0.0 else NEVER_STARTED


@mypyc_attr(allow_interpreted_subclasses=True)
class RandomScatter(Placement):
    """A gang that fits a machine gets one; a larger gang gets GPUs drawn at random from all free ones.

    The draw depends only on the seed, the job and how often it was placed before.
    """

    def __init__(self, seed: i64) -> None:
        self._seed: i64 = seed

    def widest(self, job: Job, cluster: Cluster) -> i64:
        return 0 if cluster.closest_tier(job) == 0 else cluster.root

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        if self.widest(job, cluster) == 0:
            return best_fit(cluster, 0, job.gpus, job.group)
        if cluster.free_gpus < job.gpus:
            return None
        if job.group > 1 or job.signature != 0:  # its GPUs share machines, or not every machine will do
            return best_fit(cluster, cluster.root, job.gpus, job.group)
        free: list[int] = []
        for machine in range(cluster.topology.machine_count()):
            free.extend([int(machine)] * int(cluster.free_on(machine)))
        draw = Random(f"{int(self._seed)}/{job.job_id}/{int(job.preemptions + job.migrations)}")
        gpus_on: dict[int, int] = {}
        for machine_number in sorted(draw.sample(free, int(job.gpus))):
            gpus_on[machine_number] = gpus_on.get(machine_number, 0) + 1
        allocation = make_allocation(int(cluster.root), list(gpus_on.items()))
        allocation.tier = cluster.topology.tier_of(allocation)
        return allocation


def _tiresias(settings: Settings) -> Policy:
    return ConsolidatingPolicy(LeastAttained(), SkewByName(), LeasePreemption(settings["lease_s"]))


def _gandiva(settings: Settings) -> Policy:
    return GandivaPolicy(LatestStart(), RandomScatter(settings["seed"]), LeasePreemption(settings["lease_s"]), 0.0)


SIMULATOR: Final = "the simulator behind arXiv 2401.16492, not the paper it is named after"
TIRESIAS_AS_CODED: Final = NamedPolicy(
    "tiresias-as-coded", _tiresias, "attained GPU-time", "machine, rack or anywhere by the model's name",
    "lease end", "models", SIMULATOR, (LEASE,), in_all=False,
)  # fmt: skip
GANDIVA_AS_CODED: Final = NamedPolicy(
    "gandiva-as-coded", _gandiva, "latest start", "gangs larger than a machine at random", "lease end, migration",
    NOTHING, SIMULATOR, (LEASE, Param("seed", 1, "of the draws of GPUs")), in_all=False,
)  # fmt: skip
