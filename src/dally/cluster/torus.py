"""A torus as slices: which boxes of GPUs have links of their own, and what those links carry.

Pods of TPUs are cut into slices of fixed shapes. Those smaller than a block are meshes inside it; a block wraps
around in every dimension; and optical switches join whole blocks of a pod, wherever they are, into a larger torus.
So a slice is a domain of the tree, or a number of whole blocks, and no two slices share a link.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64

from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.pickles import picklable

JOINED: Final = "joined"  # a tier's domains join whole blocks into larger tori
GIGA: Final = 1e9
_SHAPE: Final = re.compile(r"[1-9]\d{0,4}(x[1-9]\d{0,4}){0,2}")


class Torus:
    """Shapes of slices, smallest first, in nodes; the last one is the block, which wraps around."""

    __slots__ = ("joins", "latency_s", "rate", "shapes", "unit")

    def __init__(self, shapes: list[list[int]], rate: float, latency_s: float, joins: bool, unit: i64) -> None:
        self.shapes: list[list[int]] = shapes
        self.rate: float = rate  # of one link, bytes/s each direction
        self.latency_s: float = latency_s  # per hop
        self.joins: bool = joins
        self.unit: i64 = unit  # GPUs at each node

    def block_gpus(self) -> i64:
        """GPUs of a block."""
        return volume(self.shapes[-1]) * self.unit

    def shape_of(self, gpus: i64) -> list[int]:
        """The shape of the slice with so many GPUs; empty: there is none."""
        for shape in self.shapes:
            if volume(shape) * self.unit == gpus:
                return shape
        return []

    def joined(self, blocks: i64) -> list[int]:
        """The shape of so many blocks in one torus: as even as can be, the longest side last."""
        block = self.shapes[-1]
        counts = [1] * len(block)
        left = int(blocks)
        for place in range(len(block) - 1):
            counts[place] = _divisor(left, len(block) - place)
            left //= counts[place]
        counts[-1] = left
        return [side * count for side, count in zip(block, sorted(counts), strict=True)]


picklable(Torus, [[1]], 0.0, 0.0, False, 1)


def volume(shape: list[int]) -> i64:
    """Nodes of a box."""
    result: i64 = 1
    for side in shape:
        result *= side
    return result


def _divisor(number: int, parts: int) -> int:
    """The largest divisor that is at most the root of that degree."""
    result = 1
    for candidate in range(1, number + 1):
        if candidate**parts > number:
            break
        if number % candidate == 0:
            result = candidate
    return result


def read_shape(text: str) -> list[int]:
    """The sides of `4x4x4`, or a ValueError."""
    if not _SHAPE.fullmatch(text):
        raise ValueError(f"must be sides such as 4x4x4, at most three, or {JOINED}")
    return [int(side) for side in text.split("x")]


def torus_of(topology: Topology, shapes_text: str, gbps: float, latency_s: float) -> Torus | None:
    """The torus that the topology's file states, or else a preset with these values; None: none, or no rate."""
    stated = [tier[0].torus for tier in topology.links]
    texts = [text for text in stated if text] or shapes_text.split()
    gbps = max(tier[0].torus_gbps for tier in topology.links) or gbps
    if not texts or gbps <= 0.0:
        return None
    whole = f"network: torus: {' '.join(texts)!r}"
    try:
        shapes = [read_shape(text) for text in texts if text != JOINED]
    except ValueError as error:
        raise InputError(f"{whole}: {error}") from None
    if not shapes:
        raise InputError(f"{whole}: states no shape of a block")
    of_machine = int(volume(shapes[0])) if stated[0] or not any(stated) else 1
    shapes.sort(key=_size)
    machine_gpus = int(topology.gpus[0][0])
    unit = machine_gpus // of_machine
    if machine_gpus % of_machine or any(int(gpus) != machine_gpus for gpus in topology.gpus[0]):
        if any(stated):
            raise InputError(f"{whole}: machines must have the same number of GPUs, a multiple of {of_machine}")
        unit = 1  # a preset on other machines: what has the size of a slice is one
    return Torus(shapes, gbps * GIGA, latency_s, JOINED in texts, unit)


def _size(shape: list[int]) -> int:
    return int(volume(shape))
