"""`dally models`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.errors import InputError
from dally.perf.catalogue import Catalogue
from dally.perf.profiles import ModelProfile, find_profile, load_profiles, shipped

Value = str | int | float | None


class ModelColumn(NamedTuple):
    """One property of a model: its name in JSON, its heading in the table, and how to get and show it."""

    key: str
    heading: str
    value: Callable[[ModelProfile], Value]
    show: Callable[[ModelProfile], str]


@examples("dally models --gpu v100", "dally models --profiles measured --gpu h200", "dally models --sources")
def models(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
    gpu: str = typer.Option("a100", metavar="TYPE", help="GPU type of the compute times: v100, a100, h100, h200."),
    profiles: Path | None = typer.Option(
        None, metavar="FILE", help="A catalogue of your own, in TOML, first; or measured."
    ),
    sources: bool = typer.Option(False, "--sources", help="Print where each figure comes from."),
    cluster: str = typer.Option("", help="Also say how much slower each runs per tier of this cluster,"),
    network: str = typer.Option("", help="with this network,"),
    gpus: int = typer.Option(16, min=2, help="for a gang of this size, in two halves."),
) -> None:
    """List the models with what one training step computes and sends, and how the network slows it."""
    catalogue = load_profiles(profiles) if profiles else shipped()
    rows, without = profiles_on(gpu, catalogue)
    columns = step_columns() + (tier_columns(cluster, network, gpus) if cluster else [])
    if as_json:
        typer.echo(json.dumps([as_record(row, columns) for row in rows], indent=2))
    elif sources:
        cited = [[row.name, field, source] for row in rows for field, source in row.sources.items()]
        print_table(["model", "figure", "source"], cited)
    else:
        table = [[row.name, *(column.show(row) for column in columns)] for row in rows]
        print_table(["model", *(column.heading for column in columns)], table, numbers_from=2)
        typer.echo(
            "~ estimate; --sources says how and from what. Times are measured by `dally profile`, published, or"
        )
        typer.echo("derived from another GPU type's by the ratio of published speeds.")
        if without:
            typer.echo(f"No times on {gpu}: {', '.join(without)}")


def profiles_on(gpu: str, catalogue: Catalogue) -> tuple[list[ModelProfile], list[str]]:
    """The profiles on this GPU type, and the models that have none; an InputError if none has."""
    rows: list[ModelProfile] = []
    without: list[str] = []
    for name in catalogue.models:
        try:
            rows.append(find_profile(name, gpu, catalogue=catalogue))
        except InputError:
            without.append(name)
            if len(without) == len(catalogue.models):
                raise
    return rows, without


def as_record(profile: ModelProfile, columns: list[ModelColumn]) -> dict[str, object]:
    """The profile as JSON shows it."""
    return {
        "name": profile.name,
        **{column.key: column.value(profile) for column in columns},
        "all_to_all_bytes": profile.all_to_all_bytes,
        "all_to_all_gpus": profile.all_to_all_gpus,
        "gpu": profile.gpu,
        "batch_unit": profile.batch_unit,
        "precision": profile.precision,
        "optimizer_s": profile.optimizer_s,
        "memory_bytes": profile.memory_bytes,
        "timeline": profile.timeline,
        "sources": profile.sources,
    }


def step_columns() -> list[ModelColumn]:
    """What holds on any cluster."""
    return [
        ModelColumn("kind", "kind", lambda p: p.kind, lambda p: p.kind),
        ModelColumn("params", "parameters", lambda p: p.params, lambda p: _short(p.params)),
        ModelColumn("gradient_bytes", "gradients", lambda p: p.gradient_bytes, lambda p: _bytes(p.gradient_bytes)),
        ModelColumn(
            "all_reduce_bytes", "per GPU", lambda p: p.all_reduce_bytes, lambda p: _bytes(p.all_reduce_bytes)
        ),
        ModelColumn(
            "last_bucket_bytes", "last", lambda p: p.last_bucket_bytes, lambda p: _bytes(p.last_bucket_bytes)
        ),
        ModelColumn("skew", "skew", lambda p: p.skew, lambda p: f"{p.skew:.3f}"),
        ModelColumn("batch", "batch", lambda p: p.batch, lambda p: f"{p.batch:,}"),
        ModelColumn("forward_s", "forward", lambda p: p.forward_s, lambda p: _mark(p) + _time(p.forward_s)),
        ModelColumn("backward_s", "backward", lambda p: p.backward_s, lambda p: _mark(p) + _time(p.backward_s)),
        ModelColumn("tensor_parallel", "TP", lambda p: p.tensor_parallel, lambda p: str(p.tensor_parallel)),
        ModelColumn("pipeline_parallel", "PP", lambda p: p.pipeline_parallel, lambda p: str(p.pipeline_parallel)),
        ModelColumn("basis", "times", lambda p: p.basis, lambda p: p.basis),
    ]


def tier_columns(cluster: str, network: str, gpus: int) -> list[ModelColumn]:
    """How much longer a step takes for two halves of a gang that only that tier joins, alone on the links."""
    from dally.cli.cluster.network import read_network, read_placement, read_quiet_network
    from dally.perf.gang import closest_placement
    from dally.perf.iteration import demand_of
    from dally.perf.queries import placed

    links, quiet = read_network(cluster, network, [], ""), read_quiet_network(cluster, network, [])
    gang_size = gpus - gpus % 2
    halves = f"{gang_size // 2}+{gang_size // 2}"
    yardstick = closest_placement(quiet, gang_size)

    def slowdown(tier: str) -> Callable[[ModelProfile], float | None]:
        gang = placed(links, read_placement(halves, links, tier))

        def of(profile: ModelProfile) -> float | None:
            step = profile.step(gang_size)
            if gang_size // 2 % step.tensor_parallel:
                return None  # its tensor-parallel group would be torn apart
            here, best = demand_of(links, gang, step), demand_of(quiet, yardstick, step)
            return here.iteration_s(here.alone_s) / best.iteration_s(best.alone_s)

        return of

    def column(tier: str) -> ModelColumn:
        value = slowdown(tier)
        return ModelColumn(f"slowdown_{tier}", f"across {tier}", value, lambda p: _ratio(value(p)))

    return [column(tier) for tier in links.topology.tiers[1:]]


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _mark(profile: ModelProfile) -> str:
    return "~" if profile.sources["compute"].startswith("estimate:") else ""


def _short(count: int) -> str:
    return f"{count / 1e9:.1f} B" if count >= 1e9 else f"{count / 1e6:.1f} M"


def _bytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
