"""`dally topology import`."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dally.cli.cluster.topology_summary import left_out_note, summary_line, topology_record
from dally.errors import unknown
from dally.whole_file import write_whole

EXAMPLES = (
    "Example: dally topology import /etc/slurm/topology.conf --nodes nodes.txt --out cluster.toml    "
    "dally topology import nodes.json --preset aws --out cluster.toml"
)
WRITERS = ("toml", "slurm")


def import_topology(
    file: Path = typer.Argument(help="The topology, in any of the formats."),
    out: Path = typer.Option(..., metavar="FILE", help="Where to write it."),
    to: str = typer.Option("toml", metavar="FORMAT", help="As what: toml or slurm (topology.conf)."),
    form: str = typer.Option(
        "auto", "--format", help="auto, toml, slurm, slurm-yaml, topograph, kubernetes, lingjun or openb."
    ),
    nodes: Path | None = typer.Option(None, metavar="FILE", help="GPUs per node: output of scontrol show node,"),
    gres: Path | None = typer.Option(None, metavar="FILE", help="or gres.conf or slurm.conf,"),
    gpus_per_node: int | None = typer.Option(None, min=1, help="or for all nodes that these do not list."),
    labels: str = typer.Option(
        "", metavar="TOP,…,LEAF", help="Kubernetes: the labels that place a node, separated by commas,"
    ),
    preset: str = typer.Option("", help="or those of aws, gcp, oci, nvidia, topograph or kueue."),
    topology_name: str = typer.Option("", metavar="NAME", help="Which topology of a topology.yaml."),
    all_nodes: bool = typer.Option(
        False, "--all-nodes", help="Keep nodes that are down, drained, cordoned or not Ready."
    ),
    strict: bool = typer.Option(False, "--strict", help="A node that is left out is an error."),
    as_json: bool = typer.Option(False, "--json", help="Print what was imported as JSON."),
) -> None:
    """Turn the topology of Slurm, Kubernetes, Topograph, Lingjun or openb into one of ours, or into Slurm's."""
    from dally.cluster.formats.from_machines import ImportOptions
    from dally.cluster.formats.known import import_file
    from dally.cluster.formats.to_slurm import to_slurm
    from dally.cluster.formats.to_toml import to_toml

    if to not in WRITERS:
        raise unknown("format to write", to, WRITERS)
    options = ImportOptions(
        nodes=nodes,
        gres=gres,
        gpus_per_node=gpus_per_node,
        labels=tuple(label.strip() for label in labels.split(",") if label.strip()),
        preset=preset,
        topology_name=topology_name,
        all_nodes=all_nodes,
        strict=strict,
    )
    found = import_file(file, options, form)
    text = to_toml(found.topology) if to == "toml" else to_slurm(found.topology)
    write_whole(out, text.encode())
    if as_json:
        typer.echo(json.dumps(topology_record(found.topology, found.left_out), indent=2))
        return
    typer.echo(f"{out}: {summary_line(found.topology)}")
    left_out_note(file, found.left_out)
