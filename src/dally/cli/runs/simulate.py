"""`dally simulate`."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from time import perf_counter

import typer

from dally.cli.commands import examples
from dally.cli.output import print_parts, print_table
from dally.cli.runs.batch import PROGRESS
from dally.cli.runs.scenario_options import ScenarioOptions, require, takes_scenario
from dally.errors import InputError
from dally.report.run_summary import sharing_lines, summary_table
from dally.runs.execute import cost, execute
from dally.runs.going_on import Keep
from dally.sweep.batch import bar_of_run

MOST_EVENTS = 200_000  # up to here a report takes well under a second; longer runs say --report


@examples(
    "dally simulate jobs.csv --cluster 4x16x8 --policy fifo-backfill",
    "dally simulate --trace jobs.csv.gz --cluster lab.toml --policy las --set lease_s=1800 --out run1",
    "dally simulate --trace jobs.csv --cluster 4x16x8 --network slow --congestion 0.5",
    "dally simulate --trace jobs.csv --cluster 4x16x8 --failure-rate 0.01 --checkpoint-every 1800 --seed 7",
    "dally simulate --scenario run1/scenario.toml --json",
    "dally simulate --trace jobs.csv --cluster 4x16x8 --snapshot noon.snapshot --snapshot-at 43200",
    "dally simulate --from noon.snapshot --policy srtf --out from-noon",
)
@takes_scenario(without={"seeds": "one run has one seed: --seed; `dally compare` and `dally sweep` make many"})
def simulate(
    options: ScenarioOptions,
    jobs: str = typer.Argument("", metavar="TRACE", help="The same as --trace.", show_default=False),
    out: Path = typer.Option(
        None, metavar="DIR",
        help="For summary.json, jobs.csv, report.html, scenario.toml, and tables of events, decisions, slots.",
    ),
    report: bool | None = typer.Option(
        None, "--report/--no-report",
        help="Write report.html too.  [default: with --out, up to 200,000 events]",
    ),
    keep_in: Path = typer.Option(
        None, "--snapshot", metavar="FILE", help="Save the run at --snapshot-at; --from continues it."
    ),
    keep_at: float = typer.Option(
        None, "--snapshot-at", metavar="SECONDS", help="When to save it, on the trace's own clock."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON instead of a table."),
    progress: bool = PROGRESS,
) -> None:  # fmt: skip
    """Run a trace on a cluster under a policy, and print a summary."""
    began = perf_counter()
    gc.disable()  # all that a run makes lives to its end: looking for garbage in it finds none, ever slower
    chosen = options.with_trace(jobs).scenario()
    if report and not out:
        raise InputError("--report: say where with --out DIR")
    require(chosen, "simulate", "trace", "cluster")

    stop = snapshot_stop(keep_in, keep_at)
    with bar_of_run(progress) as show:
        record = execute(chosen, show, out, stop)
    if out and (report or (report is None and record.summary["events"] <= MOST_EVENTS)):
        _report(out)
    summary = record.summary | cost(began)  # of the whole command
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        table = summary_table(summary)
        print_table(table.headings, table.texts(), table.numbers_from)
        print_parts(sharing_lines(summary))
        for what, count in record.notes.items():
            typer.echo(f"{count:,} jobs {what}")
        if record.stuck:
            left = summary["jobs"] - summary["finished"]
            typer.echo(f"Jobs still waiting when nothing more could happen: {left}")
        if out:
            typer.echo(f"Written to {out}")


def snapshot_stop(path: Path | None, at_s: float | None) -> Keep | None:
    """Where and when to save the run, if that is asked for; both must be said."""
    if path is None and at_s is None:
        return None
    if path is None or at_s is None or not 0.0 <= at_s < float("inf"):
        raise InputError("--snapshot FILE and --snapshot-at SECONDS: give both, the seconds from 0 on")
    return Keep(path, at_s)


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
