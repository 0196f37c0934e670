"""`dally networks`."""

from __future__ import annotations

import json
from typing import Any

import typer

from dally.cli.output import print_table
from dally.cluster.links import Links
from dally.cluster.preset_sources import SOURCES
from dally.cluster.presets import PRESETS

EXAMPLES = """Examples:

  dally networks

  dally networks --json
"""


def networks(
    as_json: bool = typer.Option(False, "--json", help="Print all their values as JSON instead of a table."),
) -> None:
    """List the networks that --network takes, with their figures and where these come from."""
    if as_json:
        typer.echo(json.dumps([_values(links) for links in PRESETS.values()], indent=2))
        return
    print_table(
        ["network", "inside a machine", "NICs", "GB/s in all", "uplinks", "taken", "source"],
        [_row(links) for links in PRESETS.values()],
    )
    typer.echo(
        "GB/s (10^9 bytes) each direction, nominal. --set-network KEY=VALUE changes a value, --json lists them."
    )


def _values(links: Links) -> dict[str, Any]:
    return {**links._asdict(), "source": SOURCES[links.name]}


def _row(links: Links) -> list[str]:
    return [
        links.name,
        f"{links.fabric}, {links.fabric_gbps:g} GB/s a GPU",
        f"{links.nic_count} × {8 * links.nic_gbps:g} Gb/s",
        f"{links.nic_count * links.nic_gbps:g}",
        f"1:{links.oversubscription:g}",
        f"{links.background:.0%}" if links.background else "",
        SOURCES[links.name],
    ]
