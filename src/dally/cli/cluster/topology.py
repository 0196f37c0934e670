"""`dally topology`."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dally.cli.cluster import topology_import
from dally.cli.cluster.topology_summary import left_out_note, summary_line, topology_record
from dally.cluster.outline import draw
from dally.cluster.spec import read_topology

app = typer.Typer(help="Look at cluster topologies, and import them.", no_args_is_help=True)
app.command("import", epilog=topology_import.EXAMPLES)(topology_import.import_topology)


@app.command("show", epilog="Example: dally topology show 4x16x8    dally topology show /etc/slurm/topology.conf")
def show(
    cluster: str = typer.Argument(help="RxMxG, or a topology file of any format."),
    as_json: bool = typer.Option(False, "--json", help="Print tiers and machines as JSON instead."),
) -> None:
    """Draw a topology as a tree with capacities."""
    topology = read_topology(cluster)
    typer.echo(json.dumps(topology_record(topology), indent=2) if as_json else draw(topology))


@app.command("check", epilog="Example: dally topology check lab.toml    dally topology check nodes.json --strict")
def check(
    file: Path = typer.Argument(help="A topology file of any format."),
    strict: bool = typer.Option(False, "--strict", help="A node that is left out is an error."),
    as_json: bool = typer.Option(False, "--json", help="Print what it holds as JSON."),
) -> None:
    """Validate a topology file."""
    from dally.cluster.formats.from_machines import ImportOptions
    from dally.cluster.formats.known import import_file

    found = import_file(file, ImportOptions(strict=strict))
    if as_json:
        typer.echo(json.dumps(topology_record(found.topology, found.left_out), indent=2))
        return
    typer.echo(f"{file}: fine: {summary_line(found.topology)}")
    left_out_note(file, found.left_out)
