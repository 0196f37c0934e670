"""Kubernetes nodes, as `kubectl get nodes -o json` prints them, placed by their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dally.cluster.formats.from_machines import NO_GPUS, Imported, ImportOptions, LeftOut, assemble
from dally.cluster.formats.slurm_lines import whole_number
from dally.cluster.topology import Machine
from dally.errors import InputError, at, unknown
from dally.input_file import shown
from dally.parsed_text import object_in, objects_in, parse_json, text_in

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


GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
TYPE_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator")


def gpu_type_of(labels: Mapping[str, Any]) -> str:
    """What the first label says that names a type; empty if none does."""
    return next((str(labels[label]) for label in TYPE_LABELS if labels.get(label)), "")


class _Node(NamedTuple):
    name: str
    labels: dict[str, Any]
    gpus: int
    trouble: str  # why it takes no work now

    def gpu_type(self) -> str:
        """What its labels say; empty if they do not."""
        return gpu_type_of(self.labels)

    def place(self, level: Level) -> str:
        """What the node's label says at this level; empty if it has none."""
        return next((str(self.labels[label]) for label in level.labels if self.labels.get(label)), "")


def read_kubernetes(path: Path, text: str, options: ImportOptions) -> Imported:
    """The topology of the nodes that have GPUs and take work."""
    top = parse_json(path, text)
    rows = objects_in(path, top, "items") if "items" in top or top.get("kind") != "Node" else [top]
    left_out: LeftOut = {}
    nodes: list[_Node] = []
    for place, row in enumerate(rows):
        node = _node(path, f"items[{place}]", row)
        reason = NO_GPUS if not node.gpus else "" if options.all_nodes else node.trouble
        if reason:
            left_out.setdefault(reason, []).append(node.name)
        else:
            nodes.append(node)
    return _placed(path, nodes, left_out, options)


def place_nodes(path: Path, nodes: Iterable[tuple[str, dict[str, Any], int]], options: ImportOptions) -> Imported:
    """The topology of nodes by name, labels and GPUs."""
    return _placed(path, [_Node(name, labels, gpus, "") for name, labels, gpus in nodes], {}, options)


def _placed(path: Path, nodes: list[_Node], left_out: LeftOut, options: ImportOptions) -> Imported:
    levels = _levels(path, nodes, options)
    machines: list[Machine] = []
    for node in nodes:
        missing = [level.labels[0] for level in levels if level.needed and not node.place(level)]
        if missing:
            left_out.setdefault(f"without label {missing[0]}", []).append(node.name)
            continue
        above = tuple(domain for level in levels if (domain := node.place(level)))
        machines.append(Machine(above, node.name, node.gpus, node.gpu_type()))
    return assemble(path, machines, left_out, options, [level.tier for level in reversed(levels)])


def _node(path: Path, where: str, row: dict[str, Any]) -> _Node:
    metadata = object_in(path, where, row, "metadata")
    name = text_in(path, f"{where}.metadata", metadata, "name")
    status = object_in(path, where, row, "status")
    gpus = _gpus(path, where, name, status)
    labels = object_in(path, f"{where}.metadata", metadata, "labels")
    return _Node(name, labels, gpus, _trouble(path, where, row, status))


def _gpus(path: Path, where: str, name: str, status: dict[str, Any]) -> int:
    """What may be allocated; where that says nothing of a resource, what there is."""
    allocatable = object_in(path, f"{where}.status", status, "allocatable")
    capacity = object_in(path, f"{where}.status", status, "capacity")
    gpus = 0
    for resource in GPU_RESOURCES:
        value = allocatable.get(resource, capacity.get(resource, 0))
        try:
            gpus += whole_number(str(value))
        except ValueError as error:
            raise at(path, None, f"{where} ({name}): {resource}", f"{shown(value)}: {error}") from None
    return gpus


def _trouble(path: Path, where: str, row: dict[str, Any], status: dict[str, Any]) -> str:
    if object_in(path, where, row, "spec").get("unschedulable"):
        return "cordoned"
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return ""  # a list cut down to what matters here need not have them
    ready = [item.get("status") for item in conditions if isinstance(item, dict) and item.get("type") == "Ready"]
    return "not Ready" if ready and ready[-1] != "True" else ""


def _levels(path: Path, nodes: list[_Node], options: ImportOptions) -> list[Level]:
    """The labels that place these nodes, from the top down; of a preset, those that any node has."""
    if options.labels and options.preset:
        raise InputError("give --labels or --preset, not both")
    seen = {label for node in nodes for label, value in node.labels.items() if value}
    likely, bearers = _likely_preset(nodes)
    preset = find_labels(options.preset or likely)
    levels = list(as_levels(options.labels)) if options.labels else list(preset)
    borne = [level for level in levels if not seen.isdisjoint(level.labels)]
    levels = levels if options.labels else borne
    if nodes and not borne:
        known = sorted(label for label in seen if "topology" in label or "network" in label or "rack" in label)
        hint = f"; they have {', '.join(map(shown, known[:8]))}" if known else ""
        problem = (
            "no known labels give the position of its nodes; "
            "name them by `dally topology import --labels TOP,…,LEAF`"
        )
        if bearers:
            arguments = f"those of --preset {options.preset}" if options.preset else "those of --labels"
            problem, hint = f"no node has {arguments}", f"; --preset {likely} fits {bearers} of {len(nodes)} nodes"
        raise at(path, None, "labels", problem + hint)
    if levels and levels[-1].labels[0] in HOST_LABELS and _one_each(nodes, levels[-1]):
        levels.pop()
    return levels


def _likely_preset(nodes: list[_Node]) -> tuple[str, int]:
    """The preset whose needed labels occur most, the first of those that tie, and how many nodes have one."""

    def occurrences(name: str) -> int:
        return sum(any(level.needed and node.place(level) for level in PRESETS[name]) for node in nodes)

    result = max(PRESETS, key=occurrences)
    return result, occurrences(result)


def _one_each(nodes: list[_Node], level: Level) -> bool:
    values = [node.place(level) for node in nodes if node.place(level)]
    return len(set(values)) == len(values)
