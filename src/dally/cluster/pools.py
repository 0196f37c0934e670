"""Pools: the machines of some types of GPU, in the shape of the whole cluster."""

from __future__ import annotations

from dally.cluster.delta import machine_paths
from dally.cluster.topology import Machine, Topology


def pool_topology(topology: Topology, types: set[str]) -> Topology:
    """The same tree with the same machines, of which those of other types have no GPUs.

    So machines and domains have the same numbers in every pool, and what is placed in one is placed in the cluster.
    """
    rows = zip(machine_paths(topology), topology.gpus[0], topology.gpu_types, strict=True)
    machines = [Machine(path[:-1], path[-1], int(gpus) if kind in types else 0, kind) for path, gpus, kind in rows]
    return Topology(topology.tiers, machines)
