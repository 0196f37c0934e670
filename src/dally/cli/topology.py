"""`dally topology`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cluster.draw import draw
from dally.cluster.spec import read_topology
from dally.cluster.toml_file import read_toml

app = typer.Typer(help="Look at cluster topologies.", no_args_is_help=True)


@app.command("show", epilog="Example: dally topology show 4x16x8")
def show(cluster: str = typer.Argument(help="RxMxG or a TOML file.")) -> None:
    """Draw a topology as a tree with capacities."""
    typer.echo(draw(read_topology(cluster)))


@app.command("check", epilog="Example: dally topology check lab.toml")
def check(file: Path = typer.Argument(help="A topology file in TOML.")) -> None:
    """Validate a topology file."""
    topology = read_toml(file)
    counts = ", ".join(
        f"{len(topology.names[tier])} {name}" for tier, name in reversed(list(enumerate(topology.tiers)))
    )
    typer.echo(f"{file}: fine: {topology.total_gpus()} GPUs; {counts}")
