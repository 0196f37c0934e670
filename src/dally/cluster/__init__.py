"""The topology tree, what is free in it, and the ways to write it down."""

from dally.cluster.capacity import Cluster
from dally.cluster.spec import read_topology
from dally.cluster.topology import Link, Machine, Topology, grid

__all__ = ["Cluster", "Link", "Machine", "Topology", "grid", "read_topology"]
