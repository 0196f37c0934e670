"""`dally sweep`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from dally.cli import many
from dally.cli.output import print_table
from dally.cluster.network_spec import read_settings
from dally.errors import unknown
from dally.metrics.comparison import Entry, by_label, contest_of, unfinished
from dally.metrics.metric_list import BRIEF, KEYS
from dally.report.comparison_tables import absolute
from dally.sweep.batch import with_folders
from dally.sweep.plan import Plan, read_plan
from dally.sweep.row import Row

EXAMPLES = """Examples:

  dally sweep plan.toml --out swept

  dally sweep --trace jobs.csv --cluster 4x16x8 --network slow --vary policy=las,dally
  --vary lease_s=600:7200:log --samples 50 --out swept
"""


def sweep(
    plan: Path = typer.Argument(None, help="A TOML file with [base], [grid] and [random]."),
    trace: str = typer.Option(None, help="Jobs, as for `dally simulate`."),
    cluster: str = typer.Option(None, help="RxMxG or a TOML file."),
    policy: str = typer.Option(None, help="A name from `dally policies`.  [default: fifo-backfill]"),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Set a parameter of the policy."),
    network: str = typer.Option(None, help="A network preset."),
    vary: list[str] = typer.Option(
        [], metavar="NAME=VALUES",
        help="Vary a parameter: A,B,C (all of them) or LOW:HIGH, LOW:HIGH:log, LOW:HIGH:int (at random). "
        "Names are fields of scenario.toml, set.KEY of the policy, network.KEY.",
    ),
    samples: int = typer.Option(None, min=1, help="How many random samples to draw."),
    sample_seed: int = typer.Option(None, help="Seed of the samples.  [default: 1]"),
    out: Path = typer.Option(
        ..., metavar="DIR", help="Keep finished runs and results.parquet there; what is kept is not run again."
    ),
    keep_runs: bool = typer.Option(False, "--keep-runs", help="Also leave a folder per run in DIR/runs."),
    sort: str = typer.Option("jct_mean_s", metavar="COLUMN", help="Best is lowest in this; -COLUMN: highest."),
    top: int = typer.Option(10, min=1, help="How many of the best to print."),
    as_json: bool = typer.Option(False, "--json", help="Print a row per run as JSON instead of a table."),
    jobs: int = many.JOBS,
    engine: str = many.ENGINE,
    address: str = many.ADDRESS,
    progress: bool = many.PROGRESS,
) -> None:  # fmt: skip
    """Try many parameters: every combination of a grid, and random samples. Resumes where it was stopped."""
    wanted = read_plan(plan) if plan else Plan()
    given: dict[str, Any] = {"trace": trace, "cluster": cluster, "policy": policy, "network": network}
    given |= {f"set.{key}": value for key, value in read_settings("--set", settings).items()}
    for name, value in given.items():
        if value is not None:
            wanted.fix(name, value)
    for text in vary:
        wanted.vary(text)
    wanted.samples = samples or wanted.samples
    wanted.seed = wanted.seed if sample_seed is None else sample_seed
    if sort.removeprefix("-") not in KEYS:
        raise unknown("column", sort.removeprefix("-"), KEYS)
    runs = wanted.runs()
    with many.open_store(out) as store:
        if keep_runs:
            runs = with_folders(runs, out / "runs")
        outcome = many.run_many(runs, many.workers_of(engine, address, jobs), store, progress)
    rows = outcome.rows
    if as_json:
        typer.echo(json.dumps({"rows": rows, "failures": outcome.failures}, indent=2))
    elif rows:
        names = [name for name in [*wanted.grid, *wanted.random] if name != "seed"]
        print_best(rows, names, sort, top)
        for line in unfinished(rows, *names, "seed"):
            typer.echo(line)
        typer.echo(f"{len(rows)} of {len(runs)} runs in {out / 'results.parquet'}")
    many.end(outcome)


def print_best(rows: list[Row], names: list[str], sort: str, top: int) -> None:
    """Print the best parameters, means over seeds; those that left jobs unfinished come last."""
    column, sign = sort.removeprefix("-"), -1.0 if sort.startswith("-") else 1.0
    found = by_label(rows, *names)
    keys = {str(place): key for place, key in enumerate(found)}

    def rank(entry: Entry) -> tuple[bool, float]:
        standing = entry.standings.get(column)
        return bool(entry.unfinished), sign * standing.spread.mean if standing else float("inf")

    entries = contest_of({label: found[key] for label, key in keys.items()}, "").entries
    best = sorted(entries, key=rank)[:top]
    shown = contest_of({str(place): entry.rows for place, entry in enumerate(best, 1)}, "")
    table = absolute(shown, BRIEF, bounded=False, short=True)
    lines = [
        [line[0], *map(str, keys[entry.label]), *line[1:]] for entry, line in zip(best, table.marked(), strict=True)
    ]
    print_table(["", *names, *table.headings[1:]], lines, numbers_from=1)
