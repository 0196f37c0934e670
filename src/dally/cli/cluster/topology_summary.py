"""What commands say about a topology."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from dally.cluster.topology import Topology


def summary_line(topology: Topology) -> str:
    """`128 GPUs; 1 network, 2 rack, 16 machine; 96 a100, 32 v100`."""
    counts = [f"{len(names)} {tier}" for tier, names in zip(topology.tiers, topology.names, strict=True)]
    types = [f"{gpus} {gpu_type or 'of no stated type'}" for gpu_type, gpus in gpus_by_type(topology).items()]
    told = f"; {', '.join(types)}" if any(topology.gpu_types) else ""
    return f"{topology.total_gpus()} GPUs; {', '.join(reversed(counts))}{told}"


def gpus_by_type(topology: Topology) -> dict[str, int]:
    """GPUs of each type, in the order of the machines; empty: not stated."""
    found: dict[str, int] = {}
    for gpu_type, gpus in zip(topology.gpu_types, topology.gpus[0], strict=True):
        found[gpu_type] = found.get(gpu_type, 0) + int(gpus)
    return found


def topology_record(topology: Topology, left_out: Mapping[str, list[str]] | None = None) -> dict[str, object]:
    """The topology as JSON shows it: tiers closest first, machines with the domains above them."""
    machines: list[dict[str, object]] = []
    for machine, name in enumerate(topology.names[0]):
        path: list[str] = []
        domain = machine
        for tier in range(len(topology.tiers) - 2):
            domain = int(topology.parents[tier][domain])
            path.insert(0, topology.names[tier + 1][domain])
        gpu_type = {"gpu_type": topology.gpu_types[machine]} if topology.gpu_types[machine] else {}
        machines.append({"name": name, "path": path, "gpus": int(topology.gpus[0][machine]), **gpu_type})
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
