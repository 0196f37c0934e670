"""From machines and the domains above them, as some file states them, to a topology; what was left out, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dally.cluster.topology import Machine, Topology, default_tiers
from dally.errors import at

MOST_GPUS_PER_MACHINE = 1024
MOST_TIERS = 16
NO_GPUS = "without GPUs"
LeftOut = dict[str, list[str]]  # names of nodes by reason


@dataclass(frozen=True)
class ImportOptions:
    """What an operator may say about a file beyond what stands in it."""

    nodes: Path | None = None  # output of `scontrol show node`
    gres: Path | None = None  # gres.conf or slurm.conf
    gpus_per_node: int | None = None  # where nothing else says
    labels: tuple[str, ...] = ()  # of Kubernetes nodes, from the top down
    preset: str = ""  # or a named list of them
    topology_name: str = ""  # which of the topologies of a topology.yaml
    all_nodes: bool = False  # keep those that are down, drained, cordoned or not ready
    strict: bool = False  # a node left out is an error


class Imported(NamedTuple):
    """A topology read from somebody else's file, and the nodes that are not in it."""

    topology: Topology
    left_out: LeftOut


def assemble(
    file: Path, machines: list[Machine], left_out: LeftOut, options: ImportOptions, tiers: list[str] | None = None
) -> Imported:
    """The topology of these machines. Paths go from the top down and may differ in length.

    `tiers` names the tiers of a path, closest first. A domain that holds everything is the network itself.
    """
    remaining: list[Machine] = []
    for machine in machines:
        if machine.gpus > MOST_GPUS_PER_MACHINE:
            raise at(file, None, machine.name, f"{machine.gpus} GPUs: at most {MOST_GPUS_PER_MACHINE} a machine")
        if machine.gpus > 0:
            remaining.append(machine)
        else:
            left_out.setdefault(NO_GPUS, []).append(machine.name)
    if left_out and (options.strict or not remaining):
        raise at(file, None, None, ("" if remaining else "no machines to use; ") + describe(left_out))
    if not remaining:
        raise at(file, None, None, "no machines in it")
    _check_names(file, remaining)
    deepest = max(remaining, key=lambda machine: len(machine.path))
    if len(deepest.path) > MOST_TIERS - 2:
        problem = f"{len(deepest.path)} domains above each other: at most {MOST_TIERS - 2}"
        raise at(file, None, deepest.name, problem)
    paths = _distinct(_padded([machine.path for machine in remaining]))
    if paths[0] and all(path[0] == paths[0][0] for path in paths):
        paths = [path[1:] for path in paths]
    elif tiers is not None:
        tiers = [*tiers, "network"]
    depth = len(paths[0]) + 2
    names = _unique(["machine", *tiers]) if tiers is not None else default_tiers(depth)
    placed = [
        Machine(path, machine.name, machine.gpus, machine.gpu_type, machine.capacity)
        for path, machine in zip(paths, remaining, strict=True)
    ]
    return Imported(Topology(names, placed), left_out)


def describe(left_out: LeftOut) -> str:
    """`3 nodes left out: 2 without GPUs (a, b), 1 not in the tree (c)`."""
    count = sum(len(names) for names in left_out.values())
    reasons = [f"{len(names)} {reason} ({_some(names)})" for reason, names in left_out.items()]
    return f"{count} node{'s' if count > 1 else ''} left out: {', '.join(reasons)}"


def _some(names: list[str]) -> str:
    return ", ".join([name[:80] for name in names[:3]] + (["…"] if len(names) > 3 else []))


def _check_names(file: Path, machines: list[Machine]) -> None:
    seen: set[str] = set()
    for name in dict.fromkeys(name for machine in machines for name in (*machine.path, machine.name)):
        if not name.isprintable():
            raise at(file, None, None, f"{name[:80]!a}: a name with characters that cannot be printed")
    for machine in machines:
        if machine.name in seen:
            raise at(file, None, machine.name, "two machines have this name")
        seen.add(machine.name)


def _padded(paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Paths of one length: below its closest domain, a short one goes on with domains of the same name."""
    depth = max(len(path) for path in paths)
    return [path + (path[-1] if path else "network",) * (depth - len(path)) for path in paths]


def _distinct(paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The same paths, with a name that recurs under several parents prefixed by its parent's."""
    renamed: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
    for length in range(1, len(paths[0]) + 1):
        domains = list(dict.fromkeys(path[:length] for path in paths))
        desired: dict[str, int] = {}
        for domain in domains:
            desired[domain[-1]] = desired.get(domain[-1], 0) + 1
        taken = {name for name, count in desired.items() if count == 1}
        for domain in domains:
            above, name = renamed[domain[:-1]], domain[-1]
            if desired[name] > 1:
                name = _free(f"{above[-1]}-{name}" if above else name, taken)
                taken.add(name)
            renamed[domain] = (*above, name)
    return [renamed[path] for path in paths]


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number behind it the first that is not taken."""
    result, number = name, 2
    while result in taken:
        result, number = f"{name}.{number}", number + 1
    return result


def _unique(names: list[str]) -> list[str]:
    result: list[str] = []
    for name in names:
        result.append(_free(name, set(result)))
    return result
