"""Show cluster topologies, and import them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import typer

from dally.cli.commands import group, in_group
from dally.cluster.formats.from_machines import Imported, ImportOptions, describe
from dally.cluster.formats.known import import_file
from dally.cluster.outline import draw
from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import unknown
from dally.whole_file import write_whole

WRITERS = ("toml", "slurm")
app = group(__doc__)


@in_group(
    app,
    "import",
    "dally topology import /etc/slurm/topology.conf --nodes nodes.txt --out cluster.toml",
    "dally topology import nodes.json --preset aws --out cluster.toml",
)
def import_topology(
    file: Path = typer.Argument(help="The topology, in any of the formats."),
    out: Path = typer.Option(..., metavar="FILE", help="Where to write it."),
    to: str = typer.Option("toml", metavar="FORMAT", help="Output format: toml or slurm (topology.conf)."),
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
    """Convert the topology of Slurm, Kubernetes, Topograph, Lingjun or openb into one of ours, or into Slurm's."""
    from dally.cluster.formats.writers import to_slurm, to_toml

    if to not in WRITERS:
        raise unknown("format to write", to, WRITERS)
    options = ImportOptions(
        nodes, gres, gpus_per_node, tuple(label.strip() for label in labels.split(",") if label.strip()), preset,
        topology_name, all_nodes, strict,
    )  # fmt: skip
    imported = import_file(file, options, form)
    text = to_toml(imported.topology) if to == "toml" else to_slurm(imported.topology)
    write_whole(out, text.encode())
    _print_import(imported, file, f"{out}: ", as_json)


@in_group(app, "show", "dally topology show 4x16x8", "dally topology show /etc/slurm/topology.conf")
def show(
    cluster: str = typer.Argument(help="RxMxG, or a topology file of any format."),
    as_json: bool = typer.Option(False, "--json", help="Print tiers and machines as JSON instead."),
) -> None:
    """Draw a topology as a tree with capacities."""
    topology = read_topology(cluster)
    typer.echo(json.dumps(topology_record(topology), indent=2) if as_json else draw(topology))


@in_group(app, "check", "dally topology check lab.toml", "dally topology check nodes.json --strict")
def check(
    file: Path = typer.Argument(help="A topology file of any format."),
    strict: bool = typer.Option(False, "--strict", help="A node that is left out is an error."),
    as_json: bool = typer.Option(False, "--json", help="Print what it holds as JSON."),
) -> None:
    """Validate a topology file."""
    _print_import(import_file(file, ImportOptions(strict=strict)), file, f"{file}: fine: ", as_json)


def _print_import(imported: Imported, file: Path, prefix: str, as_json: bool) -> None:
    """Say what a file holds, and on stderr which of its nodes are not in the topology."""
    if as_json:
        typer.echo(json.dumps(topology_record(imported.topology, imported.left_out), indent=2))
        return
    typer.echo(f"{prefix}{summary_line(imported.topology)}")
    if imported.left_out:
        typer.echo(f"dally: {file}: {describe(imported.left_out)}", err=True)


def summary_line(topology: Topology) -> str:
    """`128 GPUs; 1 network, 2 rack, 16 machine; 96 a100, 32 v100`."""
    counts = [f"{len(names)} {tier}" for tier, names in zip(topology.tiers, topology.names, strict=True)]
    types = [f"{gpus} {gpu_type or 'of no stated type'}" for gpu_type, gpus in gpus_by_type(topology).items()]
    record = f"; {', '.join(types)}" if any(topology.gpu_types) else ""
    return f"{topology.total_gpus()} GPUs; {', '.join(reversed(counts))}{record}"


def gpus_by_type(topology: Topology) -> dict[str, int]:
    """GPUs of each type, in the order of the machines; empty: not stated."""
    result: dict[str, int] = {}
    for gpu_type, gpus in zip(topology.gpu_types, topology.gpus[0], strict=True):
        result[gpu_type] = result.get(gpu_type, 0) + int(gpus)
    return result


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
