"""`dally benchmark`."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path

import typer

from dally import is_compiled
from dally.benchmark.cells import NETWORKS, WORKLOADS, cells, check_traces
from dally.benchmark.tables_page import benchmark_runs, block_table, by_workload, page, shared_folder
from dally.cli import many
from dally.metrics.comparison import compare_rows, unfinished
from dally.report.run_folder import prepare_folder
from dally.sweep.batch import Outcome
from dally.sweep.policy_list import read_policies
from dally.sweep.row import Row
from dally.sweep.workers import Workers
from dally.whole_file import write_whole

EXAMPLES = """Examples:

  dally benchmark --out benchmark --markdown docs/results.md

  dally benchmark --cells batch32,paper-batch --networks slow --policies las,dally --seeds 1
"""


def benchmark(
    workloads: str = typer.Option(",".join(WORKLOADS), "--cells", metavar="NAME,…", help="Workloads."),
    networks: str = typer.Option(",".join(NETWORKS), metavar="NAME,…", help="Networks."),
    policies: list[str] = typer.Option(
        ["all"], metavar="NAME[:KEY=VALUE,…],…", help="Names from `dally policies`, with settings if need be."
    ),
    seeds: str = typer.Option("1,2,3", metavar="N,…", help="Seeds of models and of batches."),
    flat_restart_s: float = typer.Option(
        None, min=0.0, metavar="SECONDS", help="A restart costs this for any gang.  [default: 1 s per GPU]"
    ),
    shared: Path = typer.Option(
        None, metavar="DIR", help="Where the traces lie.  [default: $DALLY_SHARED or ../shared]"
    ),
    out: Path = typer.Option(
        None, metavar="DIR", help="Keep finished runs and results.parquet there; what is kept is not run again."
    ),
    markdown: Path = typer.Option(None, metavar="FILE", help="Write the results as a page, too."),
    as_json: bool = typer.Option(False, "--json", help="Print a row per run as JSON instead of tables."),
    jobs: int = many.JOBS,
    engine: str = many.ENGINE,
    address: str = many.ADDRESS,
    progress: bool = many.PROGRESS,
) -> None:
    """Run policies on the benchmark's workloads, networks and seeds."""
    if markdown:
        prepare_folder(markdown.parent)
    runner = many.workers_of(engine, address, jobs)
    outcome = run_cells(workloads, networks, policies, seeds, flat_restart_s, shared, out, runner, progress)
    rows = outcome.rows
    contests = compare_rows(rows, "")
    if markdown and rows:
        command = shlex.join(["dally", *sys.argv[1:]])
        write_whole(markdown, page(contests, command).encode())
    if as_json:
        typer.echo(json.dumps({"rows": rows, "failures": outcome.failures}, indent=2))
    else:
        for here in by_workload(contests).values():
            typer.echo("\n".join(block_table(here, many.names(networks))) + "\n")
        typer.echo(told(rows))
    many.end(outcome)


def run_cells(
    workloads: str,
    networks: str,
    policies: list[str],
    seeds: str,
    flat_restart_s: float | None,
    shared: Path | None,
    out: Path | None,
    engine: Workers,
    progress: bool | None,
) -> Outcome:
    """Every policy in every cell, as the options name them."""
    chosen = read_policies(policies)
    every = cells(many.names(workloads), many.names(networks), many.whole_numbers("--seeds", seeds))
    where = shared or shared_folder()
    check_traces(many.names(workloads), where)
    if not is_compiled():
        print("dally is not compiled here: this takes long; see `make install`", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary, many.open_store(out) as store:
        runs = benchmark_runs(every, chosen, where, (out or Path(temporary)) / "traces", flat_restart_s)
        return many.run_many(runs, engine, store, progress)


def told(rows: list[Row]) -> str:
    """What came of the runs, in words."""
    lines = unfinished(rows, "workload", "network", "policy", "seed")
    return "\n".join([*lines, f"{len(rows)} runs, {sum(row['cpu_s'] for row in rows):.1f} s CPU"])
