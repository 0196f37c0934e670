"""`dally sweep`."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.cli.runs.batch import Batch, end, makes_runs, open_store
from dally.cli.runs.scenario_options import ScenarioOptions, flag_of, takes_scenario
from dally.errors import InputError, unknown
from dally.metrics.comparison import Entry, by_label, contest_of, unfinished, with_figures
from dally.metrics.metric_list import BRIEF, KEYS, MEANING
from dally.metrics.summary import Row
from dally.metrics.sweeping import importances
from dally.report.comparison_tables import AS_GOOD, absolute
from dally.report.time_text import percent
from dally.runs.scenario import read_scenario
from dally.sweep.batch import with_folders
from dally.sweep.plan import Plan, read_plan


@examples(
    "dally sweep plan.toml --out swept",
    "dally sweep --trace jobs.csv --cluster 4x16x8 --network slow --vary policy=las,dally"
    " --vary lease_s=600:7200:log --samples 50 --out swept",
    "dally sweep --scenario run1/scenario.toml --vary failure_rate=0,0.01,0.1 --seeds 1,2,3 --out swept",
)
@takes_scenario(
    without={"snapshot": "a sweep varies what a saved run has settled; `dally compare --from` takes one"}
)
@makes_runs
def sweep(
    options: ScenarioOptions,
    batch: Batch,
    plan: Path = typer.Argument(None, help="A TOML file with [base], [grid] and [random]."),
    vary: list[str] = typer.Option(
        [], metavar="NAME=VALUES",
        help="Vary a parameter: A,B,C (all of them) or LOW:HIGH, LOW:HIGH:log, LOW:HIGH:int (at random). "
        "Names are fields of scenario.toml, set.KEY of the policy, network.KEY.",
    ),
    samples: int = typer.Option(None, min=1, help="How many random samples to draw."),
    sample_seed: int = typer.Option(None, help="Seed of the samples.  [default: 1]"),
    out: Path = typer.Option(
        ..., metavar="DIR", help="Store finished runs and results.parquet there; stored runs are not repeated."
    ),
    keep_runs: bool = typer.Option(False, "--keep-runs", help="Also leave a folder per run in DIR/runs."),
    sort: str = typer.Option("jct_mean_s", metavar="COLUMN", help="Best is lowest in this; -COLUMN: highest."),
    top: int = typer.Option(10, min=1, help="How many of the best to print."),
    as_json: bool = typer.Option(False, "--json", help="Print a row per run as JSON instead of a table."),
) -> None:  # fmt: skip
    """Try many parameters: every combination of a grid, and random samples. Resumes where it was stopped."""
    chosen = planned(read_plan(plan) if plan else Plan(), options, vary, samples)
    chosen.seed = chosen.seed if sample_seed is None else sample_seed
    if sort.removeprefix("-") not in KEYS:
        raise unknown("column", sort.removeprefix("-"), KEYS)
    runs = chosen.runs()
    with open_store(out) as store:
        if keep_runs:
            runs = with_folders(runs, out / "runs")
        outcome = batch.run(runs, store)
    rows = outcome.rows
    if as_json:
        typer.echo(json.dumps({"rows": rows, "failures": outcome.failures}, indent=2))
    elif rows:
        names = [name for name in [*chosen.grid, *chosen.random] if name != "seed"]
        print_best(rows, names, sort, top)
        print_importances(rows, names, sort.removeprefix("-"))
        for line in unfinished(rows, *names, "seed"):
            typer.echo(line)
        typer.echo(f"{len(rows)} of {len(runs)} runs in {out / 'results.parquet'}")
    end(outcome)


def planned(plan: Plan, options: ScenarioOptions, vary: list[str], samples: int | None) -> Plan:
    """The plan with what the command line says; InputError if that is at odds with itself."""
    if options.start:
        plan.start = read_scenario(options.start)
    for name, value in options.values.items():
        plan.fix(name, value)
    varied = [plan.vary(text) for text in vary]
    if options.listed is not None:
        plan.vary(f"seed={','.join(map(str, options.seeds([])))}")
    flags = {name: flag_of(name) for name in options.values} | ({"seed": "--seeds"} if options.listed else {})
    for name in varied:
        if name in flags:
            raise InputError(f"{flags[name]} and --vary {name}: give one of them")
    plan.samples = samples or plan.samples
    if samples and not plan.random:
        raise InputError(f"--samples {samples}: nothing is drawn at random; --vary NAME=LOW:HIGH says what")
    return plan


def print_best(rows: list[Row], names: list[str], sort: str, top: int) -> None:
    """Print the best parameters, means over seeds; those that left jobs unfinished come last."""
    column, sign = sort.removeprefix("-"), -1.0 if sort.startswith("-") else 1.0
    result = by_label(rows, *names)
    keys = {str(place): key for place, key in enumerate(result)}

    def rank(entry: Entry) -> tuple[bool, float]:
        standing = entry.standings.get(column)
        return bool(entry.unfinished), sign * standing.spread.mean if standing else float("inf")

    entries = contest_of({label: result[key] for label, key in keys.items()}, "").entries
    best = sorted(entries, key=rank)[:top]
    shown = contest_of({str(place): entry.replications for place, entry in enumerate(best, 1)}, "")
    table = absolute(shown, BRIEF, bounded=False, short=True)
    lines = [
        [line[0], *map(str, keys[entry.label]), *line[1:]] for entry, line in zip(best, table.marked(), strict=True)
    ]
    print_table(["", *names, *table.headings[1:]], lines, numbers_from=1)


def print_importances(rows: list[Row], names: list[str], column: str) -> None:
    """Print what ± means, and how much each parameter matters for a figure."""
    typer.echo(f"* best of its column, {AS_GOOD}; ± {MEANING}")
    result = importances(with_figures(rows), names, column)
    if result and len(names) > 1:
        record = [f"{name} {percent(share)}" for name, share in result.items() if name in names or share >= 0.005]
        typer.echo(f"how {column} varies is explained by {', '.join(record)}")
