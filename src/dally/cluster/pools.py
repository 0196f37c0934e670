"""Pools: the machines of some types of GPU, in the shape of the whole cluster."""

from __future__ import annotations

from dally.cluster.delta import machine_paths
from dally.cluster.partitions import Partition
from dally.cluster.topology import Machine, Topology


def pool_topology(topology: Topology, types: set[str], partition: Partition | None = None) -> Topology:
    """The same tree with the same machines, of which those of other types or outside the partition have no GPUs.

    So machines and domains have the same numbers in every pool, and what is placed in one is placed in the cluster.
    """
    machines: list[Machine] = []
    rows = zip(machine_paths(topology), topology.gpus[0], topology.gpu_types, strict=True)
    for number, (path, gpus, kind) in enumerate(rows):
        inside = kind in types and (partition is None or number in partition.machines)
        machines.append(Machine(path[:-1], path[-1], int(gpus) if inside else 0, kind))
    return Topology(topology.tiers, machines)
