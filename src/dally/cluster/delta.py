"""A topology changed: domains added or taken away (`+2 racks`, `-1 machine`), or GPUs of some machines alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from heapq import heapify, heapreplace
from typing import NamedTuple

from dally.cluster.spec import MOST_GPUS
from dally.cluster.topology import Capacity, Link, Machine, Topology
from dally.errors import InputError

_STEP = re.compile(r"([+-])\s*(\d{1,9})\s+(\S.*)")
Path = tuple[str, ...]  # names from the top down, the network's left out


class _Tree(NamedTuple):
    """A topology taken apart: GPUs and their type by machine, uplinks by domain."""

    gpus: dict[Path, int]
    links: dict[Path, Link]
    types: dict[Path, str]
    capacities: dict[Path, Capacity]

    def machines(self) -> list[Machine]:
        return [
            Machine(path[:-1], path[-1], gpus, self.types[path], self.capacities[path])
            for path, gpus in self.gpus.items()
        ]


def change(topology: Topology, text: str) -> Topology:
    """The topology after `+2 racks` or `-1 rack, +4 machines`; tiers by their names, singular or plural.

    What is added is a copy of the largest domain of its tier, the last of equals, and goes below the parent
    with the fewest GPUs. What is taken away are the largest, the last of equals first.
    """
    tree = _taken_apart(topology)
    for step in text.split(","):
        tree = _step(tree, topology.tiers, step.strip(), text)
    return _with_partitions(topology, Topology(topology.tiers, tree.machines(), tree.links))


def without_links(topology: Topology) -> Topology:
    """The same tree with no link stated."""
    return _with_partitions(topology, Topology(topology.tiers, _taken_apart(topology).machines()))


def _with_partitions(before: Topology, after: Topology) -> Topology:
    """With the machines of each partition that are still there; new ones are in none."""
    numbers = {name: number for number, name in enumerate(after.names[0])}
    for partition in before.partitions:
        names = [before.names[0][number] for number in partition.machines]
        inside = frozenset(numbers[name] for name in names if name in numbers)
        after.partitions.append(partition._replace(machines=inside))
    return after


def machine_paths(topology: Topology) -> list[Path]:
    """Of every machine, in order, the names from the top down."""
    return list(_taken_apart(topology).gpus)


def _taken_apart(topology: Topology) -> _Tree:
    top = len(topology.tiers) - 1
    paths: list[Path] = [()]
    links: dict[Path, Link] = {(): topology.links[top][0]}
    for tier in range(top - 1, -1, -1):
        above = zip(topology.parents[tier], topology.names[tier], strict=True)
        paths = [(*paths[int(parent)], name) for parent, name in above]
        links.update(zip(paths, topology.links[tier], strict=True))
    gpus = {path: int(count) for path, count in zip(paths, topology.gpus[0], strict=True)}
    types = dict(zip(paths, topology.gpu_types, strict=True))
    return _Tree(gpus, links, types, dict(zip(paths, topology.capacities, strict=True)))


def _step(tree: _Tree, tiers: list[str], step: str, text: str) -> _Tree:
    result = _STEP.fullmatch(step)
    if result is None or int(result[2]) == 0:
        raise InputError(f"--cluster-delta {text!r}: must be like '+2 racks' or '-1 rack, +4 machines'")
    count = int(result[2])
    length = len(tiers) - 1 - _tier(tiers, result[3], text)
    if result[1] == "-":
        return _taken_away(tree, length, count, text)
    return _added(tree, length, count, text)


def _tier(tiers: list[str], name: str, text: str) -> int:
    """The tier of that name; the whole network cannot be counted."""
    for tier, known in enumerate(tiers[:-1]):
        if name.lower() in (known.lower(), tier_plural(known.lower())):
            return tier
    problem = f"no tier is called {name!r}; this cluster has {', '.join(map(tier_plural, tiers[:-1]))}"
    raise InputError(f"--cluster-delta {text!r}: {problem}")


def tier_plural(name: str) -> str:
    """What several domains of a tier are called."""
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}s"


def _sizes(tree: _Tree, length: int) -> dict[Path, int]:
    """GPUs of every domain whose path has that length."""
    sizes: dict[Path, int] = {}
    for path, gpus in tree.gpus.items():
        sizes[path[:length]] = sizes.get(path[:length], 0) + gpus
    return sizes


def _largest(sizes: dict[Path, int], count: int) -> list[Path]:
    """The largest domains, the last of equals first."""
    ranked = sorted(enumerate(sizes), key=lambda item: (sizes[item[1]], item[0]), reverse=True)
    return [path for _, path in ranked[:count]]


def _taken_away(tree: _Tree, length: int, count: int, text: str) -> _Tree:
    sizes = _sizes(tree, length)
    if count >= len(sizes):
        raise InputError(f"--cluster-delta {text!r}: there are {len(sizes)}, of which one must remain")
    gone = set(_largest(sizes, count))
    return tree._replace(gpus={path: gpus for path, gpus in tree.gpus.items() if path[:length] not in gone})


def _added(tree: _Tree, length: int, count: int, text: str) -> _Tree:
    sizes = _sizes(tree, length)
    model = _largest(sizes, 1)[0]
    total = sum(sizes.values()) + count * sizes[model]
    if total > MOST_GPUS:
        raise InputError(f"--cluster-delta {text!r}: makes {total:,} GPUs, at most {MOST_GPUS:,}")
    gpus, links, types = dict(tree.gpus), dict(tree.links), dict(tree.types)
    capacities = dict(tree.capacities)
    inside = [(path[length:], machine_gpus) for path, machine_gpus in gpus.items() if path[:length] == model]
    names, machine_names = _Names(path[-1] for path in sizes), _Names(path[-1] for path in gpus)
    parents = [(size, place, path) for place, (path, size) in enumerate(_sizes(tree, length - 1).items())]
    heapify(parents)
    for _ in range(count):
        size, place, parent = parents[0]
        heapreplace(parents, (size + sizes[model], place, parent))
        made = (*parent, names.next(model[-1]))
        links[made] = links[model]
        for below, machine_gpus in inside:
            new = made
            for depth, name in enumerate(below, 1):
                like = name.replace(model[-1], made[-1], 1)
                new = (*new, machine_names.free(like) if depth == len(below) else like)
                links[new] = links[(*model, *below[:depth])]
            gpus[new] = machine_gpus
            types[new] = types[(*model, *below)]
            capacities[new] = capacities[(*model, *below)]
    return _Tree(gpus, links, types, capacities)


class _Names:
    """Names that are taken, and the next free one of a kind: after rack07, rack08."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self._last: dict[str, int] = {}  # number given last, by what stands before it

    def free(self, name: str) -> str:
        """The name itself if nobody has it, else the next of its kind."""
        if name in self.taken:
            return self.next(name)
        self.taken.add(name)
        return name

    def next(self, name: str) -> str:
        """The name with a higher number at its end that nobody has, as wide as it was."""
        digits = re.search(r"[0-9]*$", name)
        text = digits[0] if digits else ""
        before = name.removesuffix(text)
        number = max(self._last.get(before, 0), int(text or 1))
        while True:
            number += 1
            result = f"{before}{number:0{len(text)}d}"
            if result not in self.taken:
                self._last[before] = number
                self.taken.add(result)
                return result


def pool_topology(topology: Topology, types: set[str]) -> Topology:
    """The same tree with the same machines, of which those of other types have no GPUs.

    So machines and domains have the same numbers in every pool, and what is placed in one is placed in the cluster.
    """
    machines: list[Machine] = []
    rows = zip(machine_paths(topology), topology.gpus[0], topology.gpu_types, strict=True)
    for path, gpus, kind in rows:
        machines.append(Machine(path[:-1], path[-1], int(gpus) if kind in types else 0, kind))
    result = Topology(topology.tiers, machines)
    result.capacities = topology.capacities  # the same list: what becomes known of machines is known in all pools
    return result
