"""Topologies written: as TOML, which toml_file reads back as the same topology, and as Slurm's topology.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from dally.cluster.formats.hostlist import fold
from dally.cluster.formats.node_gpus import GPU_COMMENT
from dally.cluster.formats.toml_file import ALL_KEYS, COUNTS
from dally.cluster.partitions import Partition
from dally.cluster.topology import Capacity, Link, Topology
from dally.model import INFINITY
from dally.toml import toml_lines, toml_text

TOML = re.compile(r"[/\[\]\x00-\x1f]")  # what cannot be in a name: / and [ ] have a meaning in paths
SLURM = re.compile(r"[^A-Za-z0-9_.-]")
_UNSTATED = Link()


def valid_names(
    names: Iterable[str], wrong: re.Pattern[str] = TOML, taken: set[str] | None = None, most: int = 0
) -> list[str]:
    """The names with what the format cannot hold replaced by _, and no two alike.

    Those that need no change keep their name. `taken` holds names that are in use and is added to; `most` is
    how many characters a name may have.
    """
    taken = set() if taken is None else taken
    desired = list(names)
    fine = {name for name in desired if name and not wrong.search(name) and not (most and len(name) > most)}
    counts: dict[str, int] = {}
    result: list[str] = []
    for name in desired:
        base = wrong.sub("_", name)[: most or None] or "_"
        new, number = base, counts.get(base, 1)
        while new in taken or (new != name and new in fine):
            number += 1
            tail = f"_{number}"
            new = (base[: most - len(tail)] if most else base) + tail
        counts[base] = number
        taken.add(new)
        result.append(new)
    return result


def to_toml(topology: Topology) -> str:
    """The text of the file. Names that TOML paths cannot hold are changed, see `valid_names`."""
    lines: list[str] = []
    shared = [_shared(topology, tier) for tier in range(len(topology.tiers))]
    for name, link in zip(topology.tiers, shared, strict=True):
        lines += ["[[tiers]]", f"name = {toml_text(name)}", *_facts(link, _UNSTATED), ""]
    paths = _paths(topology)
    for (above, gpus, gpu_type, capacity), run in groupby(
        range(topology.machine_count()),
        key=lambda machine: (
            paths[0][machine][:-1], int(topology.gpus[0][machine]), topology.gpu_types[machine],
            topology.capacities[machine],
        ),
    ):  # fmt: skip
        names = fold(paths[0][machine][-1] for machine in run)
        lines += ["[[machines]]", *([f"path = {toml_text('/'.join(above))}"] if above else [])]
        lines += [f"names = {toml_text(names[0]) if len(names) == 1 else _list(names)}", f"gpus = {gpus}"]
        lines += [*([f"gpu_type = {toml_text(gpu_type)}"] if gpu_type else []), *_capacity(capacity), ""]
    for tier in range(len(topology.tiers) - 1):
        for path, link in zip(paths[tier], topology.links[tier], strict=True):
            facts = _facts(link, shared[tier])
            if facts:
                lines += ["[[domains]]", f"path = {toml_text('/'.join(path))}", *facts, ""]
    for partition in topology.partitions:
        lines += [*_partition(partition, [path[-1] for path in paths[0]]), ""]
    return "\n".join(lines[:-1]) + "\n"


def _capacity(capacity: Capacity) -> list[str]:
    """What is stated of it."""
    lines = [] if capacity.cpus is None else [f"cpus = {capacity.cpus!r}"]
    lines += [] if capacity.memory_mb is None else [f"memory_mb = {capacity.memory_mb!r}"]
    if capacity.resources is not None:
        rows = ", ".join(f"{toml_text(name)} = {float(count)!r}" for name, count in capacity.resources.items())
        lines.append(f"resources = {{{rows}}}")
    if capacity.features:
        lines.append(f"features = {_list(sorted(capacity.features))}")
    return lines


def _partition(partition: Partition, machines: list[str]) -> list[str]:
    inside = fold(machines[number] for number in sorted(partition.machines))
    lines = ["[[partitions]]", f"name = {toml_text(partition.name)}", f"machines = {_list(inside)}"]
    if partition.max_gpus:
        lines.append(f"max_gpus = {partition.max_gpus}")
    if partition.time_limit_s < INFINITY:
        lines.append(f"time_limit_s = {partition.time_limit_s!r}")
    for key, names in (("users", partition.users), ("accounts", partition.accounts)):
        lines += [f"{key} = {_list(list(names))}"] if names else []
    return lines


def _paths(topology: Topology) -> list[list[tuple[str, ...]]]:
    """Of every domain of every tier, the names from the top down, the network's left out."""
    paths: list[list[tuple[str, ...]]] = [[()]]
    for tier in range(len(topology.tiers) - 2, -1, -1):
        parents = [int(parent) for parent in topology.parents[tier]]
        # A domain's name is its own among its siblings, a machine's in the whole cluster.
        scopes = parents if tier else [0] * len(parents)
        names: list[str] = []
        for _, siblings in groupby(zip(scopes, topology.names[tier], strict=True), key=lambda pair: pair[0]):
            names += valid_names(name for _, name in siblings)
        paths.insert(0, [(*paths[0][parent], name) for parent, name in zip(parents, names, strict=True)])
    return paths


def _shared(topology: Topology, tier: int) -> Link:
    """What all links of a tier state alike; the last tier may state a torus."""
    links = topology.links[tier]
    shared = Link()
    for key in ALL_KEYS:
        values = {getattr(link, key) for link in links}
        if len(values) == 1:
            setattr(shared, key, values.pop())
    return shared


WRITTEN = {"capacity_gbps": "capacity_gb_s"}  # the name whose unit nobody mistakes


def _facts(link: Link, default: Link) -> list[str]:
    """The lines that turn the default into this link."""
    lines: list[str] = []
    for key in ALL_KEYS:
        value = getattr(link, key)
        if value != getattr(default, key):
            lines += toml_lines({WRITTEN.get(key, key): int(value) if key in COUNTS else value})
    return lines


def _list(names: list[str]) -> str:
    lines = [""]
    for name in names:
        item = f"{toml_text(name)}, "
        if lines[-1] and len(lines[-1]) + len(item) > 110:
            lines.append("")
        lines[-1] += item
    return "[" + "\n    ".join(["", *(line.rstrip() for line in lines)]) + "\n]"


MOST_CHARACTERS = 64  # of a switch's name, in Slurm


def to_slurm(topology: Topology) -> str:
    """The text of the file, from the top down. Names are made valid and unique."""
    nodes = valid_names(topology.names[0], SLURM)
    taken: set[str] = set()
    names = [nodes]
    for tier in range(1, len(topology.tiers)):
        names.append(valid_names(topology.names[tier], SLURM, taken, MOST_CHARACTERS))
    lines: list[str] = []
    for tier in range(len(topology.tiers) - 1, 0, -1):
        key = "Nodes" if tier == 1 else "Switches"
        for domain, name in enumerate(names[tier]):
            first = int(topology.first_children[tier][domain])
            below = names[tier - 1][first : first + int(topology.child_counts[tier][domain])]
            lines.append(f"SwitchName={name} {key}={','.join(fold(below))}")
    for (gpus, gpu_type), run in groupby(
        range(len(nodes)), key=lambda machine: (int(topology.gpus[0][machine]), topology.gpu_types[machine])
    ):
        typed = re.sub(r"[^\w.+-]", "-", gpu_type, flags=re.ASCII) + ":" if gpu_type else ""
        names_here = ",".join(fold(nodes[machine] for machine in run))
        lines.append(f"{GPU_COMMENT}NodeName={names_here} Gres=gpu:{typed}{gpus}")
    return "\n".join(lines) + "\n"
