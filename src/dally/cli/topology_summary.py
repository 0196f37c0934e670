"""What commands say about a topology."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from dally.cluster.topology import Topology


def summary_line(topology: Topology) -> str:
    """`128 GPUs; 1 network, 2 rack, 16 machine`."""
    counts = [f"{len(names)} {tier}" for tier, names in zip(topology.tiers, topology.names, strict=True)]
    return f"{topology.total_gpus()} GPUs; {', '.join(reversed(counts))}"


def topology_record(topology: Topology, left_out: Mapping[str, list[str]] | None = None) -> dict[str, object]:
    """The topology as JSON shows it: tiers closest first, machines with the domains above them."""
    machines: list[dict[str, object]] = []
    for machine, name in enumerate(topology.names[0]):
        path: list[str] = []
        domain = machine
        for tier in range(len(topology.tiers) - 2):
            domain = int(topology.parents[tier][domain])
            path.insert(0, topology.names[tier + 1][domain])
        machines.append({"name": name, "path": path, "gpus": int(topology.gpus[0][machine])})
    record: dict[str, object] = {
        "gpus": topology.total_gpus(),
        "tiers": [
            {"name": tier, "domains": len(names)}
            for tier, names in zip(topology.tiers, topology.names, strict=True)
        ],
        "machines": machines,
    }
    return record if left_out is None else {**record, "left_out": dict(left_out)}


def left_out_note(file: Path, left_out: dict[str, list[str]]) -> None:
    """Say on stderr which nodes of the file are not in the topology."""
    from dally.cluster.formats.from_machines import describe

    if left_out:
        typer.echo(f"dally: {file}: {describe(left_out)}", err=True)
