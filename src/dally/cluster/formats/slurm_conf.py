"""Slurm's topology.conf (switches, blocks or rings of nodes) and topology.yaml (since 25.05; several, by name)."""

from __future__ import annotations

from pathlib import Path

from dally.cluster.formats.from_machines import Imported, ImportOptions
from dally.cluster.formats.node_gpus import HOW, attach, find_counts
from dally.cluster.formats.slurm_lines import HostLists, settings_of, whole_numbers
from dally.cluster.formats.switch_tree import Hung, Switch, hang, hang_blocks
from dally.cluster.formats.torus_tree import StatedTorus, hang_toruses, with_shapes
from dally.cluster.formats.yaml_lines import Value, parse_yaml
from dally.errors import at, unknown
from dally.input_file import shown

MOST_SIDE = 1000
KINDS = {  # what a line may begin with, and what may follow
    "switchname": ("switches", "nodes", "linkspeed"),
    "blockname": ("nodes",),
    "blocksizes": (),
    "ringname": ("nodes",),
}


def read_slurm(path: Path, text: str, options: ImportOptions) -> Imported:
    """The topology of a topology.conf."""
    switches: list[Switch] = []
    blocks: list[Switch] = []
    rings: list[Switch] = []
    sizes: list[int] = []
    sizes_line: int | None = None
    lists = HostLists(path)
    for line, values, rest in settings_of(text):
        kind = _kind(path, line, values, rest)
        if kind == "blocksizes":
            sizes, sizes_line = whole_numbers(path, line, "BlockSizes", values[kind]), line
        else:
            of_kind = {"switchname": switches, "blockname": blocks, "ringname": rings}[kind]
            of_kind.append(_switch(path, line, kind, values, lists))
    if rings and (switches or blocks or sizes):
        raise at(path, rings[0].line, None, "a ring beside switches or blocks: give a tree, blocks or rings")
    if switches and (blocks or sizes):
        line = (blocks[0].line if blocks else sizes_line) or 1
        raise at(path, line, None, f"a block, but line {switches[0].line} has a switch: give a tree or blocks")
    counts = find_counts(path, text, options)
    if rings:
        return attach(path, hang(path, rings), counts, options, ["ring"])
    if not blocks:
        return attach(path, hang(path, switches), counts, options)
    hung, tiers = hang_blocks(path, blocks, sizes, sizes_line)
    return attach(path, hung, counts, options, tiers)


def _kind(path: Path, line: int, values: dict[str, str], rest: str) -> str:
    if rest:
        raise at(path, line, None, f"{shown(rest)}: must be KEY=VALUE")
    kinds = [kind for kind in KINDS if kind in values]
    if len(kinds) != 1:
        raise at(path, line, None, "must begin with SwitchName=, BlockName=, BlockSizes= or RingName=")
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


YAML_KINDS = ("tree", "block", "flat", "ring", "torus3d")


def read_slurm_yaml(path: Path, text: str, options: ImportOptions) -> Imported:
    """The topology of that name, or the cluster's default."""
    chosen = _chosen(path, parse_yaml(path, text), options.topology_name)
    counts = find_counts(path, text, options)
    fields = _mapping(path, "topology", chosen)
    kinds = [kind for kind in YAML_KINDS if kind in fields]
    if len(kinds) != 1:
        raise at(
            path, chosen.line, None, f"a topology has one of {', '.join(YAML_KINDS)}; this one has {len(kinds)}"
        )
    inside = fields[kinds[0]]
    if kinds[0] == "flat":
        flat: Hung = [((), name) for name in counts.of]
        if not flat:
            raise at(path, inside.line, "flat", f"nothing says which nodes there are; {HOW}")
        return attach(path, flat, counts, options)
    if kinds[0] == "tree":
        return attach(path, hang(path, _switches(path, inside, "switches", "switch")), counts, options)
    if kinds[0] == "ring":
        return attach(path, hang(path, _switches(path, inside, "rings", "ring")), counts, options, ["ring"])
    if kinds[0] == "torus3d":
        hung, tiers = hang_toruses(path, _toruses(path, inside))
        return with_shapes(attach(path, hung, counts, options, tiers))
    blocks = _switches(path, inside, "blocks", "block")
    sizes = _mapping(path, "block", inside).get("block_sizes")
    numbers = [number for item in _items(path, "block_sizes", sizes) for number in _numbers(path, item)]
    hung, tiers = hang_blocks(path, blocks, numbers, sizes.line if sizes else None)
    return attach(path, hung, counts, options, tiers)


def _chosen(path: Path, top: Value, desired: str) -> Value:
    """The topology of that name; without a name the first that is the cluster's default, or the first."""
    result = _items(path, "topologies", top)
    if not result:
        raise at(path, top.line, None, "no topologies in it")
    named = {_text(path, "topology", _field(path, item, "topology")): item for item in reversed(result)}
    if desired:
        if desired not in named:
            raise unknown("topology", desired, list(named))
        return named[desired]
    for item in result:
        default = _mapping(path, "topology", item).get("cluster_default")
        if default is not None and _text(path, "cluster_default", default).lower() in ("true", "yes", "on"):
            return item
    return result[0]


def _toruses(path: Path, inside: Value) -> list[StatedTorus]:
    """The toruses with their sides, nodes and placements."""
    result: list[StatedTorus] = []
    lists = HostLists(path)
    for item in _items(path, "toruses", _field(path, inside, "toruses")):
        fields = _mapping(path, "toruses", item)
        name = _text(path, "name", _field(path, item, "name"))
        placements = [
            _sides(path, _field(path, each, "dims"))
            for each in _items(path, "placements", fields.get("placements"))
        ]
        sides = _sides(path, _field(path, item, "dims"))
        result.append(StatedTorus(name, item.line, sides, _names(path, fields, "nodes", lists), placements))
    if not result:
        raise at(path, inside.line, "toruses", "none given")
    return result


def _sides(path: Path, value: Value) -> tuple[int, int, int]:
    """x, y and z of dims."""
    sides: list[int] = []
    for key in ("x", "y", "z"):
        item = _field(path, value, key)
        numbers = whole_numbers(path, item.line, key, _text(path, key, item))
        if len(numbers) != 1 or not 0 < numbers[0] <= MOST_SIDE:
            raise at(path, item.line, key, f"{shown(item.of)}: must be a whole number from 1 to {MOST_SIDE}")
        sides.append(numbers[0])
    return sides[0], sides[1], sides[2]


def _switches(path: Path, inside: Value, key: str, name_key: str) -> list[Switch]:
    """The switches of a tree or the blocks of a block topology."""
    result: list[Switch] = []
    lists = HostLists(path)
    for item in _items(path, key, _field(path, inside, key)):
        fields = _mapping(path, key, item)
        name = _text(path, name_key, _field(path, item, name_key))
        below = {kind: _names(path, fields, kind, lists) for kind in ("children", "nodes")}
        if not below["children"] and not below["nodes"]:
            raise at(path, item.line, name, "neither children nor nodes" if key == "switches" else "no nodes")
        result.append(Switch(name, item.line, below["children"], below["nodes"]))
    return result


def _names(path: Path, fields: dict[str, Value], key: str, lists: HostLists) -> list[str]:
    if key not in fields:
        return []
    return [
        name
        for item in _items(path, key, fields[key], single=True)
        for name in lists.names(item.line, key, _text(path, key, item))
    ]


def _numbers(path: Path, item: Value) -> list[int]:
    return whole_numbers(path, item.line, "block_sizes", _text(path, "block_sizes", item))


def _field(path: Path, value: Value, key: str) -> Value:
    fields = _mapping(path, key, value)
    if key not in fields:
        raise at(path, value.line, key, f"missing; here are {', '.join(fields) or 'no fields'}")
    return fields[key]


def _items(path: Path, field: str, value: Value | None, single: bool = False) -> list[Value]:
    if value is None:
        return []
    if isinstance(value.of, list):
        return value.of
    if single or field == "block_sizes":
        return [value]
    raise at(path, value.line, field, f"{shown(value.of)}: must be a list")


def _mapping(path: Path, field: str, value: Value) -> dict[str, Value]:
    if not isinstance(value.of, dict):
        raise at(path, value.line, field, f"{shown(value.of)}: must be a mapping of fields")
    return value.of


def _text(path: Path, field: str, value: Value) -> str:
    if not isinstance(value.of, str) or not value.of:
        raise at(path, value.line, field, f"{shown(value.of)}: must be text")
    return value.of
