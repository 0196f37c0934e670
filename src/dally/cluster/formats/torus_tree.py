"""Slurm's 3D toruses as trees: domains are the placements that Slurm gives to jobs, each inside the next."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dally.cluster.formats.from_machines import Imported
from dally.cluster.formats.switch_tree import Hung
from dally.cluster.topology import Link
from dally.errors import at, warn_input

Sides = tuple[int, int, int]


class StatedTorus(NamedTuple):
    """A torus as a file states it: nodes in the order of x, then y, then z."""

    name: str
    line: int | None
    sides: Sides
    nodes: list[str]
    placements: list[Sides]


def hang_toruses(file: Path, toruses: list[StatedTorus]) -> tuple[Hung, list[str]]:
    """Every node with the placements above it, the torus first, and the names of the tiers, closest first.

    All toruses must have the same sides and placements, as their tiers are the same.
    """
    first = toruses[0]
    chain = _nested(file, first)
    names: set[str] = set()
    hung: Hung = []
    for torus in toruses:
        if (torus.sides, torus.placements) != (first.sides, first.placements):
            problem = f"has other dims or placements than {first.name!r}: state them alike"
            raise at(file, torus.line, torus.name, problem)
        if torus.name in names:
            raise at(file, torus.line, torus.name, "two toruses have this name")
        names.add(torus.name)
        if len(torus.nodes) != _volume(torus.sides):
            problem = f"{len(torus.nodes)} nodes, but {_text(torus.sides)} are {_volume(torus.sides)}"
            raise at(file, torus.line, torus.name, problem)
        hung += _hung(torus, chain)
    return hung, [_text(sides) for sides in (*reversed(chain), first.sides)]


def _hung(torus: StatedTorus, chain: list[Sides]) -> Hung:
    placed: list[tuple[tuple[Sides, ...], str]] = []
    across, deep, _ = torus.sides
    for number, node in enumerate(torus.nodes):
        place = (number % across, number // across % deep, number // (across * deep))
        placed.append((tuple(_box(place, sides) for sides in chain), node))
    placed.sort(key=lambda pair: tuple(box[::-1] for box in pair[0]))
    return [
        ((torus.name, *(_name(torus, *each) for each in zip(chain, boxes, strict=True))), node)
        for boxes, node in placed
    ]


def _name(torus: StatedTorus, sides: Sides, box: Sides) -> str:
    """Of a placement, with where it is: pod1-2x2x1-0.1.0."""
    return f"{torus.name}-{_text(sides)}-" + ".".join(str(number) for number in box)


def _box(place: Sides, sides: Sides) -> Sides:
    """Which of the boxes of those sides a place is in."""
    return place[0] // sides[0], place[1] // sides[1], place[2] // sides[2]


def _nested(file: Path, torus: StatedTorus) -> list[Sides]:
    """Placements from the largest down of which each divides the one before it, the torus itself left out."""
    chain: list[Sides] = []
    above = torus.sides
    for sides in sorted(set(torus.placements), key=lambda sides: (-_volume(sides), sides)):
        if sides == torus.sides or _volume(sides) == 1:
            continue
        if all(a % b == 0 for a, b in zip(above, sides, strict=True)):
            chain.append(sides)
            above = sides
        else:
            problem = f"{_text(sides)} does not divide {_text(above)}: no jobs are placed on such boxes"
            warn_input(file, torus.line, torus.name, problem)
    return chain


def _volume(sides: Sides) -> int:
    return sides[0] * sides[1] * sides[2]


def _text(sides: Sides) -> str:
    return "x".join(str(side) for side in sides)


def with_shapes(imported: Imported) -> Imported:
    """The topology with each tier's shape stated, so that a network with a rate for its links is a torus."""
    topology = imported.topology
    for tier, name in enumerate(topology.tiers):
        if tier and name[:1].isdigit():
            topology.links[tier] = [Link(torus=name) for _ in topology.links[tier]]
    return imported
