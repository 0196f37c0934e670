"""Slots: how many gangs of a size could start right now, tier by tier, and how fragmented that leaves us."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster

LARGEST_GANG = 64  # larger gangs are rare: their slots say little


def gang_sizes(cluster: Cluster) -> list[int]:
    """The sizes that slots are sampled for: powers of two up to the cluster's size, 64 at most."""
    sizes: list[int] = []
    gpus = 1
    while gpus <= min(LARGEST_GANG, cluster.topology.total_gpus()):
        sizes.append(gpus)
        gpus *= 2
    return sizes


def slots(cluster: Cluster, gpus: i64) -> list[int]:
    """For each tier, how many gangs of `gpus` fit side by side into the free GPUs, each inside one domain."""
    counts: list[int] = []
    for free in cluster.free:
        counts.append(int(_slots_in(free, gpus)))
    return counts


def slot_table(cluster: Cluster, sizes: list[int]) -> vec[i64]:
    """`slots` of every size in turn, tiers closest first, end to end."""
    table = vec[i64]()
    for size in sizes:
        for free in cluster.free:
            table = append(table, _slots_in(free, size))
    return table


def next_sample_s(now: float, from_s: float, every_s: float) -> float:
    """When slots are sampled next: so many seconds apart, counted from the first time."""
    periods = (now - from_s) // every_s
    due_s = from_s + periods * every_s
    while due_s <= now:  # once or twice: the division may have been rounded
        periods += 1.0
        due_s = from_s + periods * every_s
    return due_s


def fragmentation(cluster: Cluster) -> float:
    """Share of the free GPUs that cannot serve a gang of a whole largest machine inside one machine.

    0 when nothing is free. Free GPUs of machines smaller than the largest always count: an empty
    cluster of unequal machines is not at 0. Machines that are down have nothing free.
    """
    free_gpus = cluster.free_gpus
    if free_gpus == 0:
        return 0.0
    largest = cluster.topology.largest[0]
    whole = _slots_in(cluster.free[0], largest) * largest
    return float(free_gpus - whole) / float(free_gpus)


def _slots_in(free: vec[i64], gpus: i64) -> i64:
    count: i64 = 0
    for available in free:
        count += available // gpus
    return count
