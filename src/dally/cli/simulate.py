"""`dally simulate`."""

from __future__ import annotations

import gc
import json
from math import exp
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from dally.cli.given import Given, require, takes_scenario
from dally.cli.output import print_table, progress_of
from dally.errors import InputError
from dally.report.time_text import span
from dally.runs.cost import cost
from dally.runs.execute import execute
from dally.traces.rows import told

EXAMPLES = """Examples:

  dally simulate --trace jobs.csv --cluster 4x16x8 --policy fifo-backfill

  dally simulate --trace jobs.csv.gz --cluster lab.toml --policy las --set lease_s=1800 --out run1

  dally simulate --trace jobs.csv --cluster 4x16x8 --network slow --congestion 0.5

  dally simulate --trace jobs.csv --cluster 4x16x8 --failure-rate 0.01 --checkpoint-every 1800 --seed 7

  dally simulate --scenario run1/scenario.toml --json
"""
MOST_EVENTS = 200_000  # up to here a report takes well under a second; longer runs say --report


@takes_scenario(without={"seeds": "one run has one seed: --seed; `dally compare` and `dally sweep` make many"})
def simulate(
    given: Given,
    out: Path = typer.Option(
        None, metavar="DIR",
        help="For summary.json, jobs.csv, report.html, scenario.toml, and tables of events, decisions, slots.",
    ),
    report: bool | None = typer.Option(
        None, "--report/--no-report",
        help="Write report.html too.  [default: with --out, up to 200,000 events]",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON instead of a table."),
    progress: bool = typer.Option(
        None, "--progress/--no-progress", help="Show a progress bar.  [default: if stderr is a terminal]"
    ),
) -> None:  # fmt: skip
    """Run a trace on a cluster under a policy, and say how it went."""
    began = perf_counter()
    gc.disable()  # all that a run makes lives to its end: looking for garbage in it finds none, ever slower
    chosen = given.scenario()
    if report and not out:
        raise InputError("--report: say where with --out DIR")
    require(chosen, "simulate", "trace", "cluster")

    with progress_of(progress) as show:
        record = execute(chosen, show, out)
    if out and (report or (report is None and record.summary["events"] <= MOST_EVENTS)):
        _report(out)
    summary = record.summary | cost(began)  # of the whole command
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        print_summary(summary)
        for what, count in record.notes.items():
            typer.echo(f"{count:,} jobs {what}")
        if record.stuck:
            left = summary["jobs"] - summary["finished"]
            typer.echo(f"Jobs still waiting when nothing more could happen: {left}")
        if out:
            typer.echo(f"Written to {out}")


def _report(folder: Path) -> None:
    """Write report.html about the run that the folder holds."""
    from dally.report.html.build import write_page
    from dally.report.html.run_page import run_page
    from dally.runs.folder import FolderRecord

    try:
        write_page(run_page(FolderRecord(folder)), folder / "report.html")
    except KeyboardInterrupt:
        typer.echo(f"dally: interrupted; {folder} holds everything but report.html", err=True)
        raise typer.Exit(1) from None


def print_summary(summary: dict[str, Any]) -> None:
    """Print one run for people."""
    tiers = ", ".join(f"{count:,} {tier}" for tier, count in summary["tier_starts"].items())
    finished = [
        ("makespan", f"{span(summary['makespan_s'])}  (at least {span(summary['makespan_bound_s'])})"),
        ("mean JCT", f"{span(summary['jct_mean_s'])}  (at least {span(summary['jct_bound_s'])})"),
        ("JCT p50 / p95 / p99", " / ".join(span(summary[f"jct_p{p}_s"]) for p in (50, 95, 99))),
        ("waiting, mean / p99", f"{span(summary['queue_mean_s'])} / {span(summary['queue_p99_s'])}"),
    ]
    communication = [
        ("exposed communication", f"{span(summary['comm_s'])}  (at least {span(summary['comm_floor_s'])})")
    ]
    factor = exp(summary["prediction_log_error"])
    off = f"median {summary['prediction_error_p50']:.0%}, on average a factor of {factor:.1f}"
    predictions = [("predicted durations are off by", off)] if summary["prediction_log_error"] else []
    rows = [
        ("policy", summary["policy"]),
        ("jobs finished", f"{summary['finished']:,} of {summary['jobs']:,}"),
        *([("too large, left out", f"{summary['skipped']:,}")] if summary["skipped"] else []),
        *([("rows left out", told(summary["unused"]))] if summary["unused"] else []),
        *(finished if summary["finished"] else []),
        *(communication if summary["comm_s"] else []),
        ("GPUs held / computing", f"{summary['utilization']:.1%} / {summary['goodput']:.1%}"),
        (
            "preemptions, renewals, migrations",
            ", ".join(f"{summary[name]:,}" for name in ("preemptions", "renewals", "migrations")),
        ),
        ("placements by tier", tiers),
        *predictions,
        ("events", f"{summary['events']:,} in {summary['cpu_s']:.2f} s CPU, {summary['peak_rss_mb']:.0f} MB"),
    ]
    print_table(["", ""], rows)
