"""Gandiva: time slices, machines with affinities, and migration to closer GPUs as they become free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Action, Allocation, Job, Migrate
from dally.policies.base import Param, Policy
from dally.policies.consolidating import ConsolidatingPolicy
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.ordering.base import Order
from dally.policies.ordering.round_robin import RoundRobin
from dally.policies.placement.affinity import AffinityPlacement
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit
from dally.policies.preemption.base import Preemption
from dally.policies.preemption.slices import SlicePreemption
from dally.policies.queue import Queue
from dally.policies.settings import Settings


@mypyc_attr(allow_interpreted_subclasses=True)
class GandivaPolicy(ConsolidatingPolicy):
    """Jobs take turns; when GPUs are left over, gangs that are spread farther than need be move closer.

    Xiao et al., Gandiva, OSDI 2018. We depart from it: one job per GPU at a time (no packing), gangs do not
    grow or shrink, and suspending costs what any preemption costs here.
    """

    def __init__(self, order: Order, placement: Placement, preemption: Preemption) -> None:
        super().__init__(order, placement, preemption)
        self._spread: dict[int, Job] = {}  # running farther than their closest tier
        self._freed: bool = False  # GPUs have come back since the latest pass

    def started(self, job: Job, now: float) -> None:
        super().started(job, now)
        self._spread[int(job.index)] = job

    def stopped(self, job: Job, now: float) -> None:
        super().stopped(job, now)
        self._spread.pop(int(job.index), None)
        self._freed = True

    def machine_repaired(self, machine: i64, now: float) -> None:
        self._freed = True

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        return self._offer_then_move(super().schedule(now, queue, cluster), cluster)

    def _offer_then_move(self, offers: Iterable[Action], cluster: Cluster) -> Iterator[Action]:
        yield from offers
        if not self._freed or cluster.free_gpus == 0:
            self._freed = False
            return
        self._freed = False
        for job in list(self._spread.values()):
            closest = cluster.topology.closest_tier(job.gpus, job.group)
            if job.tier <= closest:
                del self._spread[int(job.index)]
                continue
            found = closer_place(job, cluster, closest)
            if found is not None:
                yield Migrate(job, found)
        self._freed = False  # what moving jobs left behind is for the next pass


def closer_place(job: Job, cluster: Cluster, closest: i64) -> Allocation | None:
    """Free GPUs in one domain of a tier closer than the job's, the closest there are; its own do not count."""
    for tier in range(closest, job.tier):
        found = best_fit(cluster, tier, job.gpus, job.group)
        if found is not None:
            return found
    return None


def _gandiva(settings: Settings) -> Policy:
    return GandivaPolicy(RoundRobin(), AffinityPlacement(), SlicePreemption(settings["slice_s"]))


GANDIVA: Final = NamedPolicy(
    "gandiva", _gandiva, "taking turns", "machines by gang size", "time slices, migration", NOTHING,
    "Xiao et al., Gandiva, OSDI 2018", (Param("slice_s", 60.0, "seconds that a turn lasts", 1e-3),),
)  # fmt: skip
