"""Labels by which clouds and schedulers say where a Kubernetes node stands, from the top of the network down."""

from __future__ import annotations

from typing import NamedTuple

from dally.errors import unknown

HOST_LABELS = (  # one node each: the machine itself, not a domain above it
    "kubernetes.io/hostname",
    "cloud.google.com/gce-topology-host",
    "oci.oraclecloud.com/rdma.host_id",
)


class Level(NamedTuple):
    """What Dally calls a tier, the label that says a node's domain or others in its stead, whether all need one."""

    tier: str
    labels: tuple[str, ...]
    needed: bool = True


PRESETS: dict[str, tuple[Level, ...]] = {
    # Layer 1 is the top; a fourth layer exists on some instance types only. EKS user guide, "Place distributed
    # AI/ML workloads with network topology labels".
    "aws": (
        Level("layer1", ("topology.k8s.aws/network-node-layer-1",)),
        Level("layer2", ("topology.k8s.aws/network-node-layer-2",)),
        Level("layer3", ("topology.k8s.aws/network-node-layer-3",)),
        Level("layer4", ("topology.k8s.aws/network-node-layer-4",), needed=False),
    ),
    # AI Hypercomputer documentation, "Schedule GKE workloads with Topology Aware Scheduling".
    "gcp": (
        Level("block", ("cloud.google.com/gce-topology-block",)),
        Level("subblock", ("cloud.google.com/gce-topology-subblock",)),
        Level("host", ("cloud.google.com/gce-topology-host",), needed=False),
    ),
    # oracle-quickstart/oci-hpc-oke: "Using RDMA network locality when running workloads on OKE".
    "oci": (
        Level("island", ("oci.oraclecloud.com/rdma.hpc_island_id",)),
        Level("network-block", ("oci.oraclecloud.com/rdma.network_block_id",)),
        Level("local-block", ("oci.oraclecloud.com/rdma.local_block_id",)),
        Level("host", ("oci.oraclecloud.com/rdma.host_id",), needed=False),
    ),
    # NVIDIA/topograph up to 0.5, docs/engines/k8s.md; older ones say datacenter and block for core and leaf.
    "nvidia": (
        Level("core", ("network.topology.nvidia.com/core", "network.topology.nvidia.com/datacenter")),
        Level("spine", ("network.topology.nvidia.com/spine",)),
        Level("leaf", ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/block")),
        Level("nvlink", ("network.topology.nvidia.com/accelerator", "nvidia.com/gpu.clique"), needed=False),
    ),
    # Topograph 1.0 counts the other way: tier 0 is closest to the node.
    "topograph": (
        *(Level(f"fabric{number}", (f"fabric.topograph.run/tier-{number}",)) for number in range(5, -1, -1)),
        Level("nvlink", ("accelerator.topograph.run/domain",), needed=False),
        Level("sub-nvlink", ("accelerator.topograph.run/sub-domain",), needed=False),
    ),
    # kueue.sigs.k8s.io, "Topology Aware Scheduling".
    "kueue": (
        Level("block", ("cloud.provider.com/topology-block",)),
        Level("rack", ("cloud.provider.com/topology-rack",)),
        Level("host", ("kubernetes.io/hostname",), needed=False),
    ),
}


def find_labels(name: str) -> tuple[Level, ...]:
    """The preset of that name, or an InputError that suggests the nearest."""
    if name not in PRESETS:
        raise unknown("preset of labels", name, list(PRESETS))
    return PRESETS[name]


def as_levels(labels: tuple[str, ...]) -> tuple[Level, ...]:
    """Levels for labels that somebody lists, tiers named after their last part."""
    return tuple(Level(label.rsplit("/", 1)[-1] or label, (label,)) for label in labels)
