"""A reservation: for when, in which domain, and what is spare there."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Job
from dally.policies.queue import DemandClass


class Reservation:
    """Room for one gang in one domain of a tier; none yet as long as the domain is -1."""

    __slots__ = ("at_s", "domain", "guarded", "spare", "tier", "whole")

    def __init__(self, tier: i64, cluster: Cluster) -> None:
        self.tier: i64 = tier
        self.whole: bool = tier == cluster.root  # the domain is the cluster
        self.domain: i64 = -1
        self.at_s: float = INFINITY
        self.spare: i64 = 0  # GPUs of the domain that will be left then
        self.guarded: dict[int, bool] = {}  # demands that would take more than that, where they were placed

    def leaves(self, group: DemandClass) -> bool:
        """Whether jobs that ask for so much may outlast it; told for sure only when one is placed."""
        return group.gpus <= self.spare or not (self.whole or group.demand in self.guarded)


def emptied_into(job: Job, cluster: Cluster, tier: i64, room: vec[i64], gpus: i64) -> i64:
    """Add a running job's GPUs to its domains' room; the first of these that then has that many, or -1."""
    allocation = job.allocation
    assert allocation is not None
    found: i64 = -1
    for part in range(len(allocation.machines)):
        domain = cluster.topology.domain_of(tier, allocation.machines[part])
        room[domain] += allocation.gpus[part]
        if found < 0 and room[domain] >= gpus:
            found = domain
    return found
