"""`dally benchmark`."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path

import typer

from dally import is_compiled
from dally.cli import many
from dally.report.run_folder import prepare_folder
from dally.sweep.benchmark import benchmark_runs, block_table, page, shared_folder, unfinished
from dally.sweep.cells import NETWORKS, WORKLOADS, cells, check_traces
from dally.sweep.figures import by_label
from dally.sweep.policy_list import read_policies
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
    wanted = many.names(networks)
    chosen = read_policies(policies)
    every = cells(many.names(workloads), wanted, many.whole_numbers("--seeds", seeds))
    where = shared or shared_folder()
    check_traces(many.names(workloads), where)
    if markdown:
        prepare_folder(markdown.parent)
    if not is_compiled():
        print("dally is not compiled here: this takes long; see `make install`", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary, many.open_store(out) as store:
        folder = (out or Path(temporary)) / "traces"
        runs = benchmark_runs(every, chosen, where, folder, flat_restart_s)
        outcome = many.run_many(runs, many.engine_of(engine, address, jobs), store, progress)
    rows = outcome.rows
    if markdown and rows:
        command = shlex.join(["dally", *sys.argv[1:]])
        write_whole(markdown, page(rows, command).encode())
    if as_json:
        typer.echo(json.dumps({"rows": rows, "failures": outcome.failures}, indent=2))
    else:
        for here in by_label(rows, "workload").values():
            typer.echo("\n".join(block_table(here, wanted)) + "\n")
        for line in unfinished(rows, "workload", "network", "policy", "seed"):
            typer.echo(line)
        typer.echo(f"{len(rows)} runs, {sum(row['cpu_s'] for row in rows):.1f} s CPU")
    many.end(outcome)
