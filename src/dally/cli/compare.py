"""`dally compare`."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from dally.benchmark.cells import cell_loads, check_traces
from dally.benchmark.tables_page import shared_folder
from dally.cli import many
from dally.cli.output import print_table
from dally.cluster.network_spec import read_settings
from dally.cluster.presets import find_preset
from dally.errors import InputError, unknown
from dally.metrics.comparison import Contest, compare_rows, unfinished
from dally.metrics.metric_list import BRIEF
from dally.report.comparison_folder import write_comparison
from dally.report.comparison_tables import absolute, notes, relative, to_values
from dally.scenario import Scenario, read_scenario
from dally.sweep.batch import Outcome, with_folders
from dally.sweep.compared_runs import comparison_runs, trace_loads
from dally.sweep.policy_list import Chosen, read_policies

EXAMPLES = """Examples:

  dally compare --trace jobs.csv --cluster 4x16x8 --network slow --policies fifo-backfill,las,dally

  dally compare --trace a.csv --trace b.csv --cluster lab.toml --policies all --seeds 1,2,3 --out compared

  dally compare --workloads venus80,batch32 --network slow,congested --policies dally,dally:lease_s=1800
"""


def compare(
    trace: list[str] = typer.Option([], help="Jobs, as for `dally simulate`. Give it again for several workloads."),
    cluster: str = typer.Option(None, help="RxMxG or a TOML file."),
    workloads: str = typer.Option("", metavar="NAME,…", help="Workloads of `dally benchmark`, such as venus80."),
    network: str = typer.Option(
        None, metavar="NAME,…", help="Network presets.  [default: links of the cluster file; of --workloads: slow]"
    ),
    policies: list[str] = typer.Option(
        ["all"], metavar="NAME[:KEY=VALUE,…],…", help="Names from `dally policies`, with settings if need be."
    ),
    seeds: str = typer.Option(None, metavar="N,…", help="Seeds of everything drawn at random.  [default: 1]"),
    baseline: str = typer.Option(None, metavar="NAME", help="Compare with this one.  [default: the first policy]"),
    scenario: Path = typer.Option(None, help="A scenario.toml to start from; other options change it."),
    network_settings: list[str] = typer.Option(
        [], "--set-network", metavar="KEY=VALUE", help="Override one value of the network."
    ),
    congestion: str = typer.Option(None, help="Background load: a share, or TIER=SHARE,…"),
    mix: str = typer.Option(None, help="Models for jobs that name none.  [default: benchmark]"),
    restart_s: float = typer.Option(None, help="Seconds a gang that lost its GPUs needs.  [default: 0]"),
    restart_per_gpu_s: float = typer.Option(None, help="The same, per GPU of the gang.  [default: 1]"),
    skip_impossible: bool = typer.Option(
        None, "--skip-impossible", help="Leave out, and count, jobs larger than the cluster."
    ),
    shared: Path = typer.Option(
        None, metavar="DIR", help="Where the traces of --workloads lie.  [default: $DALLY_SHARED or ../shared]"
    ),
    out: Path = typer.Option(
        None, metavar="DIR", help="Leave results.parquet, table.md and a folder per run there; resumes."
    ),
    report: bool = typer.Option(True, help="With --out: also write report.html about all runs and about each."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
    jobs: int = many.JOBS,
    engine: str = many.ENGINE,
    address: str = many.ADDRESS,
    progress: bool = many.PROGRESS,
) -> None:
    """Run many policies on the same workloads side by side, and say which is best at what."""
    given: dict[str, Any] = {
        "congestion": congestion, "mix": mix, "restart_s": restart_s, "restart_per_gpu_s": restart_per_gpu_s,
        "skip_impossible": skip_impossible,
    }  # fmt: skip
    base = read_scenario(scenario) if scenario else Scenario(trace="", cluster="", policy="fifo-backfill")
    base = replace(base, **{name: value for name, value in given.items() if value is not None})
    base.network_settings = {**base.network_settings, **read_settings("--set-network", network_settings)}
    chosen = read_policies(policies)
    against = baseline_of(baseline, chosen)
    wanted = many.whole_numbers("--seeds", seeds) if seeds else [base.seed]
    traces = trace or ([base.trace] if base.trace and not workloads else [])
    cells = many.names(workloads)
    if not traces and not cells:
        raise InputError("--trace or --workloads is missing; see `dally compare --help`")
    if traces and not (cluster or base.cluster):
        raise InputError("--cluster is missing; see `dally compare --help`")
    networks = many.names(network) if network else [base.network or ("slow" if cells else "")]
    for name in filter(None, networks):
        find_preset(name)
    where = shared or shared_folder()
    check_traces(cells, where)
    runs = comparison_runs(trace_loads(traces, cluster or base.cluster, wanted), networks, chosen, base)

    with tempfile.TemporaryDirectory() as temporary, many.open_store(out) as store:
        loads = cell_loads(cells, wanted, where, (out or Path(temporary)) / "traces")
        runs += comparison_runs(loads, networks, chosen, base)
        if out:
            runs = with_folders(runs, out / "runs", report)
        outcome = many.run_many(runs, many.workers_of(engine, address, jobs), store, progress)
        contests = compare_rows(outcome.rows, against)
        if out:
            write_comparison(out, contests, against)
    if out and report and contests:
        leave_report(out, against if any(contest.baseline for contest in contests) else "")
    if as_json:
        values = {**to_values(contests, against), "failures": outcome.failures}
        typer.echo(json.dumps(values, indent=2))
    else:
        show(contests, outcome)
        if out:
            typer.echo(f"Written to {out}{'; open ' + str(out / 'report.html') if report and contests else ''}")
    many.end(outcome)


def baseline_of(name: str | None, chosen: list[Chosen]) -> str:
    """The label of the policy to compare with; InputError if it is not among them."""
    labels = [one.label() for one in chosen]
    if name and name not in labels:
        raise unknown("baseline", name, labels)
    return name or labels[0]


def leave_report(out: Path, baseline: str) -> None:
    """A page about the comparison; it links to those that the runs left."""
    from dally.report.html.build import build_page, write_page

    write_page(build_page(out, baseline), out / "report.html")


def show(contests: list[Contest], outcome: Outcome) -> None:
    """Print the tables of every workload and network."""
    for contest in contests:
        typer.echo(contest.title())
        table = absolute(contest, BRIEF, short=True)
        print_table(table.headings, table.marked(), numbers_from=1)
        if contest.baseline and len(contest.entries) > 1:
            change = relative(contest, BRIEF, short=True)
            print_table(change.headings, change.marked(), numbers_from=1)
    for line in notes(contests) if contests else ():
        typer.echo(line)
    for line in unfinished(outcome.rows, "workload", "network", "policy", "seed"):
        typer.echo(line)
