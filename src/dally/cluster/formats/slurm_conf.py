"""Slurm's topology.conf: switches above switches and nodes (tree), or blocks of nodes (block)."""

from __future__ import annotations

from pathlib import Path

from dally.cluster.formats.from_machines import Imported, ImportOptions
from dally.cluster.formats.node_gpus import attach, find_counts
from dally.cluster.formats.slurm_lines import HostLists, settings_of, whole_numbers
from dally.cluster.formats.switch_tree import Switch, hang, hang_blocks
from dally.errors import at
from dally.input_file import shown

KINDS = {  # what a line may begin with, and what may follow
    "switchname": ("switches", "nodes", "linkspeed"),
    "blockname": ("nodes",),
    "blocksizes": (),
}


def read_slurm(path: Path, text: str, options: ImportOptions) -> Imported:
    """The topology of a topology.conf."""
    switches: list[Switch] = []
    blocks: list[Switch] = []
    sizes: list[int] = []
    sizes_line: int | None = None
    lists = HostLists(path)
    for line, values, rest in settings_of(text):
        kind = _kind(path, line, values, rest)
        if kind == "blocksizes":
            sizes, sizes_line = whole_numbers(path, line, "BlockSizes", values[kind]), line
        else:
            (switches if kind == "switchname" else blocks).append(_switch(path, line, kind, values, lists))
    if switches and (blocks or sizes):
        line = (blocks[0].line if blocks else sizes_line) or 1
        raise at(path, line, None, f"a block, but line {switches[0].line} has a switch: give a tree or blocks")
    counts = find_counts(path, text, options)
    if not blocks:
        return attach(path, hang(path, switches), counts, options)
    hung, tiers = hang_blocks(path, blocks, sizes, sizes_line)
    return attach(path, hung, counts, options, tiers)


def _kind(path: Path, line: int, values: dict[str, str], rest: str) -> str:
    if rest:
        raise at(path, line, None, f"{shown(rest)}: must be KEY=VALUE")
    kinds = [kind for kind in KINDS if kind in values]
    if len(kinds) != 1:
        raise at(path, line, None, "must begin with SwitchName=, BlockName= or BlockSizes=")
    for key in values:
        if key != kinds[0] and key not in KINDS[kinds[0]]:
            raise at(path, line, key, f"unknown; known: {', '.join((kinds[0], *KINDS[kinds[0]]))}")
    return kinds[0]


def _switch(path: Path, line: int, kind: str, values: dict[str, str], lists: HostLists) -> Switch:
    name = values[kind]
    if not name:
        raise at(path, line, kind, "is empty")
    below = {key: lists.names(line, key, values[key]) for key in ("switches", "nodes") if key in values}
    if not below:
        raise at(path, line, name, "neither Switches= nor Nodes=" if kind == "switchname" else "no Nodes=")
    return Switch(name, line, below.get("switches", []), below.get("nodes", []))
