"""Slurm's block topology: blocks of nodes, and blocks of blocks by size."""

from __future__ import annotations

from pathlib import Path

from dally.cluster.formats.switch_tree import Hung, Switch, hang
from dally.errors import at


def hang_blocks(file: Path, blocks: list[Switch], sizes: list[int], line: int | None) -> tuple[Hung, list[str]]:
    """Every node with the blocks above it, and the names of the tiers, closest first.

    Sizes are nodes. The first is the planning size of a block; each further one, twice as large or four times
    and so on, joins consecutive blocks into a larger block.
    """
    groups = _groups(file, sizes, line)
    hung = hang(file, blocks)
    number = {block.name: place for place, block in enumerate(blocks)}
    found: Hung = []
    for (block,), node in hung:
        above = [_joined(blocks, number[block], count) for count in reversed(groups)]
        found.append(((*above, block), node))
    return found, ["block", *(f"block{size}" for size in sizes[1:])]


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
