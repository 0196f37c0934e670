"""A topology written as TOML: what `toml_file` reads back as the same topology."""

from __future__ import annotations

import json
from itertools import groupby

from dally.cluster.formats.hostlist import fold
from dally.cluster.formats.toml_file import FABRIC_KEYS, LINK_KEYS
from dally.cluster.formats.valid_names import valid_names
from dally.cluster.partitions import Partition
from dally.cluster.topology import Link, Topology
from dally.model import INFINITY

_UNSTATED = Link()


def to_toml(topology: Topology) -> str:
    """The text of the file. Names that TOML paths cannot hold are changed, see `valid_names`."""
    lines: list[str] = []
    shared = [_shared(topology, tier) for tier in range(len(topology.tiers))]
    for name, link in zip(topology.tiers, shared, strict=True):
        lines += ["[[tiers]]", f"name = {toml_text(name)}", *_facts(link, _UNSTATED), ""]
    paths = _paths(topology)
    for (above, gpus, gpu_type), run in groupby(
        range(topology.machine_count()),
        key=lambda machine: (
            paths[0][machine][:-1], int(topology.gpus[0][machine]), topology.gpu_types[machine],
        ),
    ):  # fmt: skip
        names = fold(paths[0][machine][-1] for machine in run)
        lines += ["[[machines]]", *([f"path = {toml_text('/'.join(above))}"] if above else [])]
        lines += [f"names = {toml_text(names[0]) if len(names) == 1 else _list(names)}", f"gpus = {gpus}"]
        lines += [*([f"gpu_type = {toml_text(gpu_type)}"] if gpu_type else []), ""]
    for tier in range(len(topology.tiers) - 1):
        for path, link in zip(paths[tier], topology.links[tier], strict=True):
            facts = _facts(link, shared[tier])
            if facts:
                lines += ["[[domains]]", f"path = {toml_text('/'.join(path))}", *facts, ""]
    for partition in topology.partitions:
        lines += [*_partition(partition, [path[-1] for path in paths[0]]), ""]
    return "\n".join(lines[:-1]) + "\n"


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
    """What all links of a tier state alike; the last tier has none."""
    links = topology.links[tier] if tier < len(topology.tiers) - 1 else [_UNSTATED]
    shared = Link()
    for key in (*LINK_KEYS, *FABRIC_KEYS):
        values = {getattr(link, key) for link in links}
        if len(values) == 1:
            setattr(shared, key, values.pop())
    return shared


def _facts(link: Link, default: Link) -> list[str]:
    """The lines that turn the default into this link."""
    lines: list[str] = []
    for key in (*LINK_KEYS, *FABRIC_KEYS):
        value = getattr(link, key)
        if value != getattr(default, key):
            lines.append(f"{key} = {toml_text(value) if isinstance(value, str) else repr(value)}")
    return lines


def toml_text(value: str) -> str:
    """A TOML string: JSON's, which TOML reads the same way, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(names: list[str]) -> str:
    lines = [""]
    for name in names:
        item = f"{toml_text(name)}, "
        if lines[-1] and len(lines[-1]) + len(item) > 110:
            lines.append("")
        lines[-1] += item
    return "[" + "\n    ".join(["", *(line.rstrip() for line in lines)]) + "\n]"
