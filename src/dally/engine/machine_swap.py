"""Another place for a gang that keeps all of its machines except some: each is replaced by the nearest free one."""

from __future__ import annotations

from collections.abc import Collection

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job, make_allocation


def swapped(cluster: Cluster, job: Job, out: Collection[int]) -> Allocation | None:
    """The running job's place without these machines; None: not as many GPUs are free on one other for each."""
    assert job.allocation is not None
    topology = cluster.topology
    held = job.allocation.parts()
    left = [machine for machine, _ in held if machine not in out]
    feasibility = cluster.feasibility
    cluster.focus(job)
    free = [int(gpus) for gpus in cluster.free[0]]
    cluster.focus(None)
    parts: list[tuple[int, int]] = []
    taken = {machine for machine, _ in held}
    for machine, gpus in held:
        if machine not in out:
            parts.append((machine, gpus))
            continue
        others = left or [machine]
        ranked = [
            (_tiers_apart(cluster, other, others), free[other], other)
            for other in range(len(free))
            if free[other] >= gpus and other not in taken and other not in out
            and topology.gpu_types[other] == topology.gpu_types[machine]
        ]  # fmt: skip
        if not ranked:
            return None
        nearest = min(ranked)[2]
        taken.add(nearest)
        parts.append((nearest, gpus))
    result = make_allocation(0, sorted(parts))
    if feasibility is not None and feasibility.refusal(job.signature, result, job.allocation):
        return None
    result.tier = topology.tier_of(result)
    return result


def _tiers_apart(cluster: Cluster, machine: int, others: Collection[int]) -> int:
    """The closest tier at which the machine shares a domain with one of the others."""
    topology = cluster.topology
    for tier in range(1, len(topology.tiers)):
        domain = topology.domain_of(tier, machine)
        if any(topology.domain_of(tier, other) == domain for other in others):
            return tier
    return len(topology.tiers)
