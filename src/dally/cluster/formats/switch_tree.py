"""Switches that name what hangs below them, and Slurm's blocks, turned into the path of every node."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dally.cluster.formats.from_machines import MOST_TIERS
from dally.errors import InputError, at

Hung = list[tuple[tuple[str, ...], str]]  # each node's switches from the top down, and its name


class Switch(NamedTuple):
    """One switch as a file states it; the line is None where the format has none."""

    name: str
    line: int | None
    switches: list[str]
    nodes: list[str]


def hang(file: Path, stated: list[Switch]) -> Hung:
    """Every node with the switches above it, in the order of the file; an InputError if it is not a tree."""
    switches = _by_name(file, stated)
    twin_of = _parallel(switches)
    parent = _parents(file, switches, twin_of)
    _check_nodes(file, switches)
    result: Hung = []
    reached: set[str] = set()
    waiting: list[tuple[str, ...]] = [
        (name,) for name in reversed(switches) if name not in parent and name not in twin_of
    ]
    while waiting:
        path = waiting.pop()
        switch = switches[path[-1]]
        reached.add(switch.name)
        if len(path) > MOST_TIERS:
            raise at(file, switch.line, switch.name, f"more than {MOST_TIERS} switches above each other")
        result += [(path, node) for node in switch.nodes]
        below = dict.fromkeys(twin_of.get(child, child) for child in switch.switches)
        waiting += [(*path, child) for child in reversed(below)]
    for name, switch in switches.items():
        if name not in reached and name not in twin_of:
            raise _circle(file, switch, parent)
    return result


def _by_name(file: Path, stated: list[Switch]) -> dict[str, Switch]:
    result: dict[str, Switch] = {}
    for switch in stated:
        if switch.name in result:
            raise at(file, switch.line, switch.name, f"is already {_where(result[switch.name])}")
        result[switch.name] = switch
    return result


def _parallel(switches: dict[str, Switch]) -> dict[str, str]:
    """Switches above exactly the same others, as the spines of a fat tree are, by the first of them."""
    first: dict[tuple[str, ...], str] = {}
    twin_of: dict[str, str] = {}
    for name, switch in switches.items():
        if switch.switches and not switch.nodes:
            key = tuple(sorted(set(switch.switches)))
            if first.setdefault(key, name) != name:
                twin_of[name] = first[key]
    return twin_of


def _parents(file: Path, switches: dict[str, Switch], twin_of: dict[str, str]) -> dict[str, str]:
    parent: dict[str, str] = {}
    for name, switch in switches.items():
        if name in twin_of:
            continue
        for child in switch.switches:
            if child not in switches:
                raise at(file, switch.line, name, f"{child!r} hangs below it, and there is no such switch")
            above = parent.setdefault(twin_of.get(child, child), name)
            if above != name:
                problem = f"{child!r} hangs below {above!r} too ({_where(switches[above])}): not a tree"
                raise at(file, switch.line, name, problem)
    return parent


def _check_nodes(file: Path, switches: dict[str, Switch]) -> None:
    seen: dict[str, Switch] = {}
    for switch in switches.values():
        for node in switch.nodes:
            if node in seen:
                other = seen[node]
                where = "twice in its list" if other is switch else f"in {other.name!r} too ({_where(other)})"
                raise at(file, switch.line, switch.name, f"node {node!r} appears {where}")
            seen[node] = switch


def _circle(file: Path, switch: Switch, parent: dict[str, str]) -> InputError:
    """The error for a switch that no root leads to: somewhere above it the way goes round in circles."""
    place: dict[str, int] = {}
    name = switch.name
    while name not in place:
        place[name] = len(place)
        name = parent[name]
    circle = [*list(place)[place[name] :], name]
    shown = circle if len(circle) <= 5 else [*circle[:2], "…", *circle[-2:]]
    names = " above ".join(reversed(shown))
    return at(file, switch.line, switch.name, f"switches hang below each other in a circle: {names}")


def _where(switch: Switch) -> str:
    return f"in line {switch.line}" if switch.line is not None else "in the file"


def hang_blocks(file: Path, blocks: list[Switch], sizes: list[int], line: int | None) -> tuple[Hung, list[str]]:
    """Every node with the blocks above it, and the names of the tiers, closest first.

    Sizes are nodes. The first is the planning size of a block; each further one, twice as large or four times
    and so on, joins consecutive blocks into a larger block.
    """
    groups = _groups(file, sizes, line)
    hung = hang(file, blocks)
    number = {block.name: place for place, block in enumerate(blocks)}
    result: Hung = []
    for (block,), node in hung:
        above = [_joined(blocks, number[block], count) for count in reversed(groups)]
        result.append(((*above, block), node))
    return result, ["block", *(f"block{size}" for size in sizes[1:])]


def _groups(file: Path, sizes: list[int], line: int | None) -> list[int]:
    """How many blocks each larger size joins."""
    if not sizes:
        return []
    if sizes[0] < 1:
        raise at(file, line, "BlockSizes", f"{sizes[0]}: must be at least 1")
    groups = [size // sizes[0] for size in sizes]
    for place, size in enumerate(sizes):
        count = groups[place]
        rising = place == 0 or groups[place] > groups[place - 1]
        if size % sizes[0] or count & (count - 1) or not rising:
            problem = f"{size}: each size must be the first one times 2, 4, 8 or so, in rising order"
            raise at(file, line, "BlockSizes", problem)
    return groups[1:]


def _joined(blocks: list[Switch], place: int, count: int) -> str:
    """The name of the group of `count` consecutive blocks that one is in."""
    first = place - place % count
    last = min(first + count, len(blocks)) - 1
    return f"{blocks[first].name}..{blocks[last].name}"
