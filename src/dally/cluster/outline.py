"""A topology drawn as a tree of text, runs of equal siblings folded into one line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from dally.cluster.topology import Topology


def draw(topology: Topology) -> str:
    """The tree, one line per domain or per run of equal ones, with GPUs and links."""
    top = len(topology.tiers) - 1
    lines = [f"{topology.tiers[top]}: {_size(topology, top, 0)}"]
    lines += _children(topology, top, 0, "")
    return "\n".join(lines)


def _children(topology: Topology, tier: int, domain: int, indent: str) -> Iterator[str]:
    if tier == 0:
        return
    first = int(topology.first_children[tier][domain])
    members = range(first, first + int(topology.child_counts[tier][domain]))
    runs = [list(run) for _, run in groupby(members, key=lambda child: _shape(topology, tier - 1, child))]
    for place, run in enumerate(runs):
        last = place == len(runs) - 1
        yield f"{indent}{'└── ' if last else '├── '}{_label(topology, tier - 1, run)}"
        yield from _children(topology, tier - 1, run[0], indent + ("    " if last else "│   "))


def _label(topology: Topology, tier: int, run: list[int]) -> str:
    names = topology.names[tier]
    if len(run) == 1:
        text = f"{names[run[0]]}: {_size(topology, tier, run[0])}"
    else:
        text = f"{names[run[0]]} … {names[run[-1]]}: {len(run)} × {_size(topology, tier, run[0])}"
    link = topology.links[tier][run[0]]
    facts = [f"{link.capacity_gbps:g} GB/s"] if link.capacity_gbps else []
    facts += [f"{link.oversubscription:g}:1"] if link.oversubscription else []
    facts += [f"{link.latency_s * 1e6:g} µs"] if link.latency_s else []
    facts += [f"efficiency {link.efficiency:g}"] if link.efficiency else []
    facts += [f"background {link.background:g}"] if link.background > 0 else []
    facts += [f"{link.rails:g} rails"] if link.rails else []
    facts += [f"{link.uplinks:g} uplinks"] if link.uplinks else []
    facts += [f"routing {link.routing}"] if link.routing else []
    facts += [f"{link.planes:g} planes"] if link.planes else []
    inside = [link.fabric] if link.fabric else []
    inside += [f"torus {link.torus}"] if link.torus else []
    inside += [f"{link.fabric_gbps:g} GB/s per GPU"] if link.fabric_gbps else []
    inside += [f"{link.fabric_latency_s * 1e6:g} µs"] if link.fabric_latency_s else []
    text += f"  [inside {', '.join(inside)}]" if inside else ""
    return text + (f"  [link {', '.join(facts)}]" if facts else "")


def _size(topology: Topology, tier: int, domain: int) -> str:
    typed = f" {topology.gpu_types[domain]}" if tier == 0 and topology.gpu_types[domain] else ""
    return f"{int(topology.gpus[tier][domain])}{typed} GPUs"


def _shape(topology: Topology, tier: int, domain: int) -> tuple[object, ...]:
    """Equal for domains that look alike all the way down."""
    link = topology.links[tier][domain]
    first = int(topology.first_children[tier][domain])
    inside: tuple[object, ...] = ()
    if tier > 0:
        members = range(first, first + int(topology.child_counts[tier][domain]))
        inside = tuple(_shape(topology, tier - 1, child) for child in members)
    gpu_type = topology.gpu_types[domain] if tier == 0 else ""
    return (int(topology.gpus[tier][domain]), gpu_type, link.facts(), inside)
