"""`dally predict` and `dally collective`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.errors import InputError, at
from dally.whole_file import whole_file

if TYPE_CHECKING:
    from dally.cluster.links import Network
    from dally.model import Profile
    from dally.perf.gang import Gang


@examples(
    "dally predict --model bert-large --cluster 4x16x8 --network normal --placement 4+4",
    "dally predict --model gpt2-xl --profiles measured --gpu h200 --cluster 4x16x8 --network normal"
    " --placement 8+8",
    "dally predict --compute-s 0.12 --bytes 1.3GB --cluster 4x16x8 --network slow --placement 8+8 --tier network",
)
def predict(
    model: str = typer.Option("", help="A name from `dally models`."),
    gpu: str = typer.Option("a100", metavar="TYPE", help="The GPU type whose times are taken."),
    profiles: Path | None = typer.Option(None, metavar="FILE", help="Models of your own, in TOML; or measured."),
    compute_s: float = typer.Option(0.0, help="Instead: seconds of compute per iteration,"),
    size: str = typer.Option("", "--bytes", help="and bytes of gradients, e.g. 1.3GB,"),
    overlap: float = typer.Option(1.0, help="and the share of their exchange that the backward pass may hide."),
    cluster: str = typer.Option(..., help="RxMxG (racks x machines x GPUs, e.g. 4x16x8) or a topology file."),
    network: str = typer.Option("", help="A network preset.  [default: the links in the cluster file]"),
    settings: list[str] = typer.Option([], "--set-network", metavar="KEY=VALUE", help="Override a network value."),
    congestion: str = typer.Option("", help="Background load: a share, or TIER=SHARE,…"),
    placement: str = typer.Option(..., help="GPUs per machine, e.g. 4+4, or machine:GPUs, e.g. 0:4+5:4."),
    tier: str = typer.Option("", help="Spread 4+4 over this tier instead of as close as can be."),
    algorithm: str = typer.Option("auto", help="ring, hierarchical, halving-doubling, tree, nvls, or the fastest."),
    hostfile: Path | None = typer.Option(
        None, metavar="FILE", help="Of a model priced by its groups: write the machine of each rank, a line a rank."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Compute how long an iteration takes on a placement, and compare it with the closest possible one."""
    from dally.cli.cluster.network import read_network, read_placement, read_quiet_network
    from dally.perf.gang import closest_placement
    from dally.perf.iteration import demand_of
    from dally.perf.queries import check_collective, placed

    check_collective("all-reduce", algorithm)
    links = read_network(cluster, network, settings, congestion)
    gang = placed(links, read_placement(placement, links, tier))
    profile = _profile(model, gpu, profiles, int(gang.size), compute_s, size, overlap)
    demand = demand_of(links, gang, profile, algorithm)
    # The yardstick is the quiet network, as a trace's durations are.
    quiet = read_quiet_network(cluster, network, settings)
    best = demand_of(quiet, closest_placement(quiet, int(gang.size)), profile, algorithm)
    iteration_s = demand.iteration_s(demand.alone_s)
    closest_s = best.iteration_s(best.alone_s)
    facts = {
        "model": profile.name,
        "gpus": int(gang.size),
        "tier": links.topology.tiers[int(gang.top)],
        "algorithm": demand.cost.algorithm or "none",
        "compute_s": demand.compute_s(),
        "communication_s": demand.alone_s,
        "exposed_s": iteration_s - demand.compute_s(),
        "iteration_s": iteration_s,
        "closest_iteration_s": closest_s,
        "slowdown": iteration_s / closest_s if closest_s > 0 else 1.0,
    }
    groups = _groups(links, gang, profile, hostfile)
    if as_json:
        typer.echo(json.dumps(facts | groups, indent=2))
        return
    print_table(["", ""], [*_rows(facts), *_group_rows(groups)])


def _rows(facts: dict[str, Any]) -> list[list[str]]:
    return [
        ["placement", f"{facts['gpus']} GPUs, {facts['tier']}, {facts['algorithm']}"],
        ["iteration", f"{facts['iteration_s'] * 1e3:,.3f} ms"],
        ["compute", f"{facts['compute_s'] * 1e3:,.3f} ms"],
        ["communication", f"{facts['communication_s'] * 1e3:,.3f} ms"],
        ["of it exposed", f"{facts['exposed_s'] * 1e3:,.3f} ms"],
        ["at the closest placement", f"{facts['closest_iteration_s'] * 1e3:,.3f} ms"],
        ["slowdown", f"{facts['slowdown']:.3f}"],
    ]


def _groups(links: Network, gang: Gang, profile: Profile, hostfile: Path | None) -> dict[str, Any]:
    """Which groups cross which tier, the parts of a step, and each rank's machine; nothing of other models."""
    if profile.groups is None:
        if hostfile is not None:
            raise InputError(f"--hostfile {hostfile}: {profile.name or 'the model'} states no parallel groups")
        return {}
    placed = profile.groups.placed(links, gang)
    names = [links.topology.names[0][int(placed.site.machines[place])] for place in placed.ranks.places]
    if hostfile is not None:
        with whole_file(hostfile) as file:
            file.write("".join(f"{name}\n" for name in names).encode())
    return {"crosses": placed.crossed, "parts_s": placed.parts._asdict(), "ranks": names}


def _group_rows(groups: dict[str, Any]) -> list[list[str]]:
    if not groups:
        return []
    crosses = [f"{kind.replace('_', ' ')} ({tier} uplinks)" for kind, tier in groups["crosses"].items()]
    parts = sorted(groups["parts_s"].items(), key=lambda part: -part[1])
    shown = [f"{name.removesuffix('_s')} {value * 1e3:,.0f} ms" for name, value in parts if value >= 1e-3]
    runs: list[list[Any]] = []
    for name in groups["ranks"]:
        if runs and runs[-1][0] == name:
            runs[-1][1] += 1
        else:
            runs.append([name, 1])
    order = ", ".join(f"{name} × {count}" for name, count in runs[:MOST_RUNS])
    return [
        ["parts", ", ".join(shown)],
        ["groups that cross", ", ".join(crosses) or "none"],
        ["ranks", order + (f", … ({len(runs)} in all)" if len(runs) > MOST_RUNS else "")],
    ]


def _profile(
    model: str, gpu: str, profiles: Path | None, gpus: int, compute_s: float, size: str, overlap: float
) -> Profile:
    from dally.cli.cluster.network import read_size
    from dally.model import Profile
    from dally.perf.profiles import find_profile, load_profiles

    if model and (compute_s or size):
        raise InputError(f"--model {model}: give it or --compute-s and --bytes, not both")
    if model:
        return find_profile(model, gpu, catalogue=load_profiles(profiles) if profiles else None).step(gpus)
    if not compute_s or not size:
        raise InputError("--model is missing, or --compute-s and --bytes; see `dally predict --help`")
    return Profile(compute_s=compute_s, nbytes=read_size(size), overlap=overlap)


MOST_RUNS = 16  # of ranks on one machine that a table shows

COLUMNS = ("collective", "bytes", "placement", "algorithm", "tier")


@examples(
    "dally collective all-reduce --bytes 100MB --cluster 4x16x8 --network normal --placement 8+8",
    "dally collective all-to-all --bytes 64MiB --cluster lab.toml --placement 0:4+5:4 --json",
    "dally collective --batch queries.csv --cluster 4x16x8 --network slow",
)
def collective(
    name: str = typer.Argument("", metavar="COLLECTIVE", help="all-reduce, reduce-scatter, all-gather, …"),
    size: str = typer.Option("", "--bytes", help="Bytes per GPU, e.g. 100MB or 64MiB."),
    cluster: str = typer.Option(..., help="RxMxG (racks x machines x GPUs, e.g. 4x16x8) or a topology file."),
    network: str = typer.Option("", help="A network preset.  [default: the links in the cluster file]"),
    settings: list[str] = typer.Option([], "--set-network", metavar="KEY=VALUE", help="Override a network value."),
    congestion: str = typer.Option("", help="Background load: a share, or TIER=SHARE,…"),
    placement: str = typer.Option("", help="GPUs per machine, e.g. 8+8, or machine:GPUs, e.g. 0:8+4:8."),
    tier: str = typer.Option("", help="Spread 8+8 over this tier instead of as close as can be."),
    algorithm: str = typer.Option("auto", help="ring, hierarchical, halving-doubling, tree, nvls, or the fastest."),
    chunks: int = typer.Option(
        None, help="Number of pieces to pipeline the tiers in; 0: no limit.  [default: 0, of ideal links 1]"
    ),
    batch: Path = typer.Option(None, help="A csv: collective, bytes, placement; algorithm and tier if need be."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Compute how long a collective takes alone on a placement."""
    from dally.cli.cluster.network import read_network

    if chunks is not None and chunks < 0:
        raise InputError(f"--chunks {chunks}: must be a whole number, not negative")
    links = read_network(cluster, network, settings, congestion)
    if batch:
        queries = _read_batch(batch)
    else:
        for option, value in (("COLLECTIVE", name), ("--bytes", size), ("--placement", placement)):
            if not value:
                raise InputError(f"{option} is missing; see `dally collective --help`")
        queries = [dict(zip(COLUMNS, (name, size, placement, algorithm, tier), strict=True))]
    rows = []
    for line, query in enumerate(queries, start=2):
        try:
            rows.append(_answer(links, query, -1 if chunks is None else chunks))
        except InputError as error:
            raise at(batch, line, None, str(error)) if batch else error from None
    if as_json:
        typer.echo(json.dumps(rows if batch else rows[0], indent=2))
        return
    print_table(
        ["collective", "placement", "algorithm", "bytes", "time", "busiest link", "GB/s per GPU"],
        [
            [
                row["collective"], row["placement"], row["algorithm"], f"{row['bytes']:,.0f}",
                f"{row['time_s'] * 1e3:,.3f} ms", row["busiest"], f"{row['algbw_gbps']:.2f}",
            ]
            for row in rows
        ],
        numbers_from=3,
    )  # fmt: skip


def _answer(links: Any, query: dict[str, str], chunks: int) -> dict[str, Any]:
    from dally.cli.cluster.network import read_placement, read_size
    from dally.perf.collectives import collective_cost
    from dally.perf.queries import check_collective, placed

    algorithm = query["algorithm"] or "auto"
    check_collective(query["collective"], algorithm)
    nbytes = read_size(query["bytes"])
    placement = read_placement(query["placement"], links, query["tier"])
    gang = placed(links, placement)
    cost = collective_cost(links, gang, query["collective"], nbytes, algorithm, chunks)
    time_s = cost.alone_s()
    busiest = max(range(len(cost.seconds)), key=lambda place: cost.seconds[place], default=-1)
    shared_s = cost.seconds[busiest] if busiest >= 0 else 0.0
    return {
        "collective": query["collective"],
        "bytes": nbytes,
        "placement": "+".join(f"{machine}:{gpus}" for machine, gpus in sorted(placement.items())),
        "tier": links.topology.tiers[int(gang.top)],
        "algorithm": cost.algorithm or "none",
        "time_s": time_s,
        "algbw_gbps": nbytes / time_s / 1e9 if time_s > 0 else 0.0,
        "fixed_s": cost.fixed_s,
        "inside_s": cost.private_s,
        "busiest": links.link_name(int(cost.links[busiest]))
        if shared_s >= cost.private_s and shared_s
        else "inside",
        "link_s": {
            links.link_name(int(link)): seconds for link, seconds in zip(cost.links, cost.seconds, strict=True)
        },
    }


def _read_batch(path: Path) -> list[dict[str, str]]:
    from dally.traces.table import rows_of

    rows = rows_of(path)
    _, header = next(rows, (1, []))
    for column in ("collective", "bytes", "placement"):
        if column not in header:
            raise at(path, 1, column, "this column is missing")
    empty = dict.fromkeys(COLUMNS, "")
    return [
        empty | {name: text.strip() for name, text in zip(header, row, strict=False) if name in COLUMNS}
        for _, row in rows
    ]
