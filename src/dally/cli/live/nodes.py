"""`dally nodes` and `dally slots`: what is free on a running cluster."""

from __future__ import annotations

from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.live.server_client import Server, queries_server
from dally.cli.output import plain, print_table


def _print_nodes(result: dict[str, Any]) -> None:
    rows = [
        [
            plain(node["name"]), plain(" ".join(node["domains"])),
            plain(node["state"] + (f": {node['reason']}" if node["reason"] else "")),
            str(node["gpus"]), str(node["free"]), plain(", ".join(node["jobs"])),
        ]
        for node in result["nodes"]
    ]  # fmt: skip
    print_table(["machine", "in", "state", "GPUs", "free", "jobs"], rows)


@examples("dally nodes", "dally nodes --json")
@queries_server(_print_nodes)
def nodes(server: Server) -> Any:
    """List the machines, what is free on each, and which jobs run there."""
    return server.get("nodes")


def _print_slots(result: dict[str, Any]) -> None:
    *inner, whole = result["slots"]
    names = [*(f"inside one {tier}" for tier in inner), f"across the {whole}"]
    rows = [[plain(name), str(count)] for name, count in zip(names, result["slots"].values(), strict=True)]
    print_table([f"gangs of {result['gpus']} GPUs", "now"], rows, numbers_from=1)


@examples("dally slots --gpus 64", "dally slots --gpus 8 --json")
@queries_server(_print_slots)
def slots(
    server: Server, gpus: int = typer.Option(8, "--gpus", "-g", metavar="N", min=1, help="GPUs of a gang.")
) -> Any:
    """Count the gangs of a size that could start now, by how close together."""
    return server.get("slots", gpus=gpus)
