"""NVIDIA Topograph's JSON: instances with their network layers (its graph engine), or switches (its models).

Formats: docs/engines/graph.md and docs/modeling.md of github.com/NVIDIA/topograph.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dally.cluster.formats.from_machines import Imported, ImportOptions
from dally.cluster.formats.node_gpus import attach, find_counts
from dally.cluster.formats.slurm_lines import HostLists
from dally.cluster.formats.switch_tree import Hung, Switch, hang
from dally.errors import at
from dally.input_file import shown
from dally.parsed_text import object_in, objects_in, parse_json, text_in, texts_in


def read_topograph(path: Path, text: str, options: ImportOptions) -> Imported:
    """The topology of either kind of file. It counts no GPUs: they come from where Slurm's do."""
    top = parse_json(path, text)
    if "instances" in top:
        hung = _instances(path, objects_in(path, top, "instances"))
    elif "switches" in top:
        hung = _nvlinks(path, hang(path, _switches(path, top)), _domains(path, top))
    else:
        raise at(
            path, None, None, f"neither instances nor switches; here are {', '.join(map(shown, top)) or 'none'}"
        )
    counts = find_counts(path, "", options)
    return attach(path, hung, counts, options)


def _instances(path: Path, rows: list[dict[str, Any]]) -> Hung:
    """Layers are listed from the leaf up."""
    hung: Hung = []
    domains: dict[str, str] = {}
    for place, row in enumerate(rows):
        where = f"instances[{place}]"
        name = text_in(path, where, row, "id")
        layers = texts_in(path, where, row, "network_layers")
        hung.append((tuple(reversed(layers)), name))
        nvlink = object_in(path, where, row, "attributes").get("nvlink")
        if isinstance(nvlink, str) and nvlink:
            domains[name] = nvlink
    return _nvlinks(path, hung, domains)


def _switches(path: Path, top: dict[str, Any]) -> list[Switch]:
    result: list[Switch] = []
    lists = HostLists(path)
    switches = object_in(path, "top", top, "switches")
    for name in switches:
        row = object_in(path, "switches", switches, name)
        where = f"switches.{name}"
        nodes = row.get("nodes") or []
        if not isinstance(nodes, list):
            raise at(path, None, f"{where}.nodes", f"{shown(nodes)}: must be a list")
        below = [node for item in nodes for node in _node_names(path, where, item, lists)]
        result.append(Switch(name, None, texts_in(path, where, row, "switches"), below))
    return result


def _node_names(path: Path, where: str, item: object, lists: HostLists) -> list[str]:
    """A node is an object with its id, or text that may be a range."""
    if isinstance(item, dict):
        return [text_in(path, f"{where}.nodes", item, "node_id")]
    if not isinstance(item, str) or not item:
        raise at(path, None, f"{where}.nodes", f"{shown(item)}: must be a name or an object with node_id")
    return lists.names(None, f"{where}.nodes", item)


def _domains(path: Path, top: dict[str, Any]) -> dict[str, str]:
    """The NVLink domain of each node that has one."""
    result: dict[str, str] = {}
    switches = object_in(path, "top", top, "switches")
    for name in switches:
        for item in object_in(path, "switches", switches, name).get("nodes") or []:
            domain = item.get("accelerated_network_id") if isinstance(item, dict) else None
            if isinstance(domain, str) and domain:
                result[item["node_id"]] = domain
    nodes = object_in(path, "top", top, "nodes")
    for name in nodes:
        domain = object_in(path, name, object_in(path, "nodes", nodes, name), "attributes").get("nvlink")
        if isinstance(domain, str) and domain:
            result[name] = domain
    return result


def _nvlinks(path: Path, hung: Hung, domains: dict[str, str]) -> Hung:
    """The nodes with their NVLink domain as the closest one, where a file states any.

    A domain that is all of a leaf and nothing else, for every leaf, is the leaf and no tier of its own.
    """
    of_leaf: dict[tuple[str, ...], set[str]] = {}
    for above, name in hung:
        of_leaf.setdefault(above, set()).add(domains.get(name, ""))
    if not domains or all(len(result) == 1 for result in of_leaf.values()):
        return hung
    return [((*above, domains[name]) if name in domains else above, name) for above, name in hung]
