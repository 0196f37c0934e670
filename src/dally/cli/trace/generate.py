"""`dally trace generate`, and `dally learn`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.cli.trace.trace_options import TraceOptions, reads_trace
from dally.errors import InputError
from dally.report.time_text import span

if TYPE_CHECKING:
    from dally.traces.generate import GeneratedWorkload


@examples(
    "dally trace generate --list",
    "dally trace generate venus-like --jobs 2000 --load 0.9 --cluster 10x8x8 --seed 7 --out jobs.csv",
    "dally trace generate philly-like --days 14 --out fortnight.csv.gz --json",
    "dally trace generate venus-like --jobs 2000 --users 95 --teams 12 --out teams.csv",
)
def generate(
    recipe: str = typer.Argument(None, help="A name from --list."),
    out: Path = typer.Option(None, metavar="FILE", help="The trace to write: .csv, or .csv.gz."),
    jobs: int = typer.Option(None, help="How many jobs.  [default: as many as the recipe's source has]"),
    days: float = typer.Option(None, help="Days over which jobs arrive.  [default: at the pace of the source]"),
    load: float = typer.Option(
        None, help="GPU-hours asked for as a share of the cluster's. It sets the days, or with --days the jobs."
    ),
    cluster: str = typer.Option(
        None, help="RxMxG or a TOML file: what the load is measured against. Larger gangs are left out."
    ),
    gpus: int = typer.Option(None, help="The same, as a number of GPUs.  [default: those of the source]"),
    users: int = typer.Option(
        None, help="Divide the work among this many users, as unevenly as measured.  [default: the recipe's]"
    ),
    teams: int = typer.Option(
        0, help="Assign the users to this many teams: the column queue.  [default: none]", show_default=False
    ),
    seed: int = typer.Option(1, help="Seed of everything drawn at random."),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON instead of a table."),
    show_list: bool = typer.Option(False, "--list", help="List the recipes and their sources."),
) -> None:
    """Write a synthetic workload after a recipe of published statistics."""
    from dally.traces.generate import WorkloadRequest, find_recipe, write_workload
    from dally.traces.generate import generate as generated

    if show_list:
        _list(as_json)
        return
    if recipe is None:
        raise InputError("a recipe is missing; --list shows them")
    result = find_recipe(recipe)
    if out is None:
        raise InputError("--out is missing: the file to write, .csv or .csv.gz")
    workload = generated(result, WorkloadRequest(seed, jobs, days, load, _gpus(cluster, gpus), users, teams))
    write_workload(out, workload)
    if as_json:
        typer.echo(json.dumps(workload.summary() | {"file": str(out)}, indent=2))
    else:
        _print(workload)
        typer.echo(f"Written to {out}")


def _gpus(cluster: str | None, gpus: int | None) -> int | None:
    if cluster is None:
        return gpus
    if gpus is not None:
        raise InputError("--cluster and --gpus say the same: give one")
    from dally.cluster.spec import read_topology

    return int(read_topology(cluster).total_gpus())


def _list(as_json: bool) -> None:
    from dally.traces.generate import RECIPE_NAMES, find_recipe

    recipes = [find_recipe(name) for name in RECIPE_NAMES]
    if as_json:
        fields = ("name", "about", "source", "borrowed", "jobs", "days", "cluster_gpus")
        typer.echo(json.dumps([{key: getattr(recipe, key) for key in fields} for recipe in recipes], indent=2))
        return
    print_table(
        ["recipe", "what it is", "made from", "not in its source, borrowed"],
        [[recipe.name, recipe.about, recipe.source, recipe.borrowed or "nothing"] for recipe in recipes],
    )


def _print(workload: GeneratedWorkload) -> None:
    numbers: dict[str, Any] = workload.summary()
    load = (
        "all at once" if numbers["load"] is None else f"{numbers['load']:.1%} of {numbers['cluster_gpus']:,} GPUs"
    )
    statuses = ", ".join(f"{count:,} {status}" for status, count in numbers["jobs_by_status"].items())
    sizes = ", ".join(f"{count:,} × {gpus}" for gpus, count in numbers["jobs_by_gpus"].items())
    print_table(
        ["", ""],
        [
            ["recipe", f"{numbers['recipe']}, seed {numbers['seed']}"],
            ["jobs", f"{numbers['jobs']:,} in {span(numbers['span_s'])}"],
            ["GPU-hours", f"{numbers['gpu_hours']:,.0f}, {numbers['gpu_hours_over_8']:.1%} in gangs over 8 GPUs"],
            ["load", load],
            ["duration p50 / p90", f"{span(numbers['duration_p50_s'])} / {span(numbers['duration_p90_s'])}"],
            ["jobs × GPUs", sizes],
            ["users, names", f"{numbers['users']:,}, {numbers['names']:,}"],
            *([["queues", f"{numbers['queues']:,}"]] if "queues" in numbers else []),
            ["ended", statuses],
        ],
    )


@examples(
    "dally learn --trace last-month.csv --out learned.json",
    "dally simulate --trace jobs.csv --cluster 4x16x8 --policy dally --set learned=learned.json",
)
@reads_trace
def learn(
    options: TraceOptions,
    trace: Path = typer.Option(..., metavar="FILE", help="Jobs that have run, in any format of docs/formats.md."),
    out: Path = typer.Option(..., metavar="FILE", help="Where to write what was learnt."),
    forget: float = typer.Option(
        0.03, metavar="SHARE", min=0.0, max=1.0, help="What a user's class forgets with each job, as --set forget."
    ),
) -> None:
    """Learn from history how long jobs run, for `dally` to begin with: --set learned=FILE."""
    from dally.policies.prediction.hazard import HazardTable
    from dally.policies.prediction.learned import ended_jobs, table_text
    from dally.policies.prediction.learned import learn as fill
    from dally.whole_file import write_whole

    history = options.history(trace)
    if history.length == "iterations":
        raise InputError(f"{trace}: iterations: how long its jobs ran is not known; give duration_s or compute_s")
    table = HazardTable(forget=forget)
    jobs = ended_jobs(history)
    fill(table, jobs)
    write_whole(out, table_text(table).encode())
    users = len({job.user for job in jobs if job.user})
    typer.echo(f"Learnt from {len(jobs):,} jobs of {users:,} users. Written to {out}")
