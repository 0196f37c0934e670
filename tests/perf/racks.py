"""Two racks whose links have round capacities."""

from __future__ import annotations

from dally import Cluster
from dally.cluster.links import Network


def two_racks(machines: int) -> Cluster:
    """So many machines of eight GPUs in each."""
    return Cluster.grid(racks=2, machines=machines, gpus=8, intra_gbps=300, nic_gbps=25, uplink_gbps=25, ideal=True)


def network_of(cluster: Cluster) -> Network:
    """Its links."""
    assert cluster.network is not None
    return cluster.network
