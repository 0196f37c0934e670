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
from dally.cli.runs import many
from dally.cli.runs.compare import SEVERAL
from dally.cli.runs.given import Given, takes_scenario
from dally.metrics.comparison import compare_rows, unfinished
from dally.metrics.row import Row
from dally.runs.folder import prepare_folder
from dally.sweep.batch import Outcome
from dally.sweep.policy_list import both_forms
from dally.sweep.replications import replicated
from dally.sweep.workers import Workers
from dally.whole_file import write_whole

EXAMPLES = """Examples:

  dally benchmark --out benchmark --markdown docs/results.md

  dally benchmark --cells batch32,paper-batch --networks slow --policies las,dally --seeds 1
"""


SEEDS = "1,2,3"
OF_CELLS = (
    "trace", "cluster", "skip_impossible", "trace_format", "strict", "zone", "durations", "mix", "scenario",
    "snapshot", "queues", "gpu_speeds",
)  # fmt: skip
FIXED = {
    **dict.fromkeys(OF_CELLS, "a cell of the benchmark fixes it"),
    **dict.fromkeys(
        ("network", "network_settings", "congestion", "network_at"), "cells are on the networks of --networks"
    ),
    **dict.fromkeys(("restart_s", "restart_per_gpu_s"), "a restart costs 1 s per GPU, or --flat-restart-s"),
    "failures": "it names machines of one cluster, and cells differ in theirs; --failure-rate is for all",
    "past": "it is the past of one trace, and cells differ in theirs",
    **SEVERAL,
}


@takes_scenario(without=FIXED, usual={"seed": "those of --seeds", "seeds": SEEDS})
def benchmark(
    given: Given,
    workloads: str = many.listed(WORKLOADS, "--cells", "Workloads."),
    networks: str = many.listed(NETWORKS, "--networks", "Networks."),
    policies: list[str] = typer.Option(
        ["all"],
        metavar="NAME[:KEY=VALUE,…],…",
        help="Names of `dally policies` or FILE.py:Class, maybe with settings; -NAME leaves one of `all` out.",
    ),
    flat_restart_s: float = typer.Option(
        None, min=0.0, metavar="SECONDS", help="A restart costs this for any gang.  [default: 1 s per GPU]"
    ),
    replications: int = many.REPLICATIONS,
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
        prepare_folder(markdown.parent, own=False)
    runner = many.workers_of(engine, address, jobs)
    outcome = run_cells(
        workloads, networks, policies, given, flat_restart_s, shared, out, runner, progress, replications
    )
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
    given: Given,
    flat_restart_s: float | None,
    shared: Path | None,
    out: Path | None,
    engine: Workers,
    progress: bool | None,
    replications: int,
) -> Outcome:
    """Every policy in every cell, as the options name them."""
    chosen = both_forms(policies)
    every = cells(many.names(workloads), many.names(networks), seeds_of(given))
    where = shared or shared_folder()
    check_traces(many.names(workloads), where)
    if not is_compiled():
        print("dally is not compiled here: this takes long; see `make install`", file=sys.stderr)
    changes = {name: value for name, value in given.values.items() if name != "seed"}
    with tempfile.TemporaryDirectory() as temporary, many.open_store(out) as store:
        runs = benchmark_runs(every, chosen, where, (out or Path(temporary)) / "traces", flat_restart_s, changes)
        return many.run_many(replicated(runs, replications), engine, store, progress)


def seeds_of(given: Given) -> list[int]:
    """Those of --seeds or --seed, else the benchmark's."""
    return given.seeds(many.whole_numbers("--seeds", SEEDS))


def told(rows: list[Row]) -> str:
    """What came of the runs, in words."""
    lines = unfinished(rows, "workload", "network", "policy", "seed")
    return "\n".join([*lines, f"{len(rows)} runs, {sum(row['cpu_s'] for row in rows):.1f} s CPU"])
