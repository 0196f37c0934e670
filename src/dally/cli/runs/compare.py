"""`dally compare`, and `dally demo`: a comparison that needs no files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import typer

from dally.benchmark.cells import cell_loads, check_traces
from dally.benchmark.tables_page import shared_folder
from dally.cli.commands import examples
from dally.cli.output import print_parts, print_table
from dally.cli.runs.batch import REPLICATIONS, Batch, end, makes_runs, names, open_store, workers_of
from dally.cli.runs.scenario_options import ScenarioOptions, flag_of, option, require, takes_scenario
from dally.cluster.presets import check_network
from dally.errors import InputError, unknown
from dally.metrics.comparison import Contest, compare_rows, unfinished
from dally.metrics.metric_list import BRIEF
from dally.metrics.summary import Row
from dally.policies import registry
from dally.report.comparison_tables import absolute, by_queue_tables, notes, relative, to_values, write_comparison
from dally.runs.folder import prepare_folder
from dally.runs.scenario import Scenario
from dally.sweep.batch import Outcome, with_folders
from dally.sweep.policy_list import Chosen, both_forms
from dally.sweep.run import comparison_runs, replicated, trace_loads
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload

# What the workloads of the benchmark settle themselves, and how they do.
OF_TRACES: dict[str, Any] = {"cluster": "", "trace_format": "auto", "zone": "UTC"}
SEVERAL = {
    "policy": "a comparison is of several: --policies NAME,NAME",
    "settings": "a parameter is of one of the policies: --policies NAME:KEY=VALUE",
    "jitter": "replications are as many as --replications says",
}


class Comparison(NamedTuple):
    """What is compared: policies on networks, under seeds, on the user's traces and the benchmark's workloads."""

    base: Scenario  # the rest of every run
    policies: Sequence[Chosen]
    baseline: str  # the label of one of them
    networks: Sequence[str]
    seeds: Sequence[int]
    traces: Sequence[str]
    workloads: Sequence[str] = ()
    shared: Path | None = None  # where the traces of workloads lie
    replications: int = 1


@examples(
    "dally compare --trace jobs.csv --cluster 4x16x8 --network slow --policies fifo-backfill,las,dally",
    "dally compare --trace a.csv --trace b.csv --cluster lab.toml --policies all --seeds 1,2,3 --out compared",
    "dally compare --trace sacct.txt --format sacct --zone Europe/Paris --cluster topology.conf"
    " --failure-rate 0.01",
    "dally compare --workloads venus80,batch32 --network slow,congested --policies dally,dally:migration=off",
)
@takes_scenario(without=SEVERAL)
@makes_runs
def compare(
    options: ScenarioOptions,
    batch: Batch,
    traces: list[str] = typer.Argument(None, metavar="TRACE", help="The same as --trace.", show_default=False),
    trace: list[str] = option("trace", more="Give it again for several workloads."),
    network: str = option("network", "links of the cluster file; of --workloads: slow", metavar="NAME,…"),
    workloads: str = typer.Option("", metavar="NAME,…", help="Workloads of `dally benchmark`, such as venus80."),
    policies: list[str] = typer.Option(
        ["all"], metavar="NAME[:KEY=VALUE,…],…",
        help="Names from `dally policies` or FILE.py:Class, with settings if need be.",
    ),
    baseline: str = typer.Option(None, metavar="NAME", help="Compare with this one.  [default: the first policy]"),
    replications: int = REPLICATIONS,
    shared: Path = typer.Option(
        None, metavar="DIR", help="The folder of the traces of --workloads.  [default: $DALLY_SHARED or ../shared]"
    ),
    out: Path = typer.Option(
        None, metavar="DIR", help="Leave tables (parquet, md, csv, tex, json) and a folder per run there; resumes."
    ),
    report: bool = typer.Option(
        None, "--report/--no-report",
        help="With --out: also write report.html about all runs and about each.  [default: report]",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
) -> None:  # fmt: skip
    """Run many policies on the same workloads side by side, and mark the best per metric."""
    check_positional(traces or [], policies)
    trace = [*(traces or []), *(trace or [])]
    if report and not out:
        raise InputError("--report: say where with --out DIR")
    chosen = both_forms(policies)
    base = options.scenario()
    cells = names(workloads)
    comparison = Comparison(
        base,
        chosen,
        baseline_of(baseline, chosen),
        names(network) if network else [base.network or ("slow" if cells else "")],
        options.seeds([base.seed]),
        trace or ([base.trace] if base.trace and not cells else []),
        cells,
        shared,
        replications,
    )
    check_workloads(comparison, options)
    pages = report is not False
    outcome = make_runs(comparison, out, pages, batch)
    print_results(outcome, comparison.baseline, out, pages, as_json)
    end(outcome)


def check_positional(traces: Sequence[str], policies: Sequence[str]) -> None:
    """InputError for a policy where a trace belongs, as in `--policies fifo las`."""
    for name in traces:
        if name in registry.POLICIES and not Path(name).exists():
            listed = ",".join([*policies, name])
            raise InputError(f"{name}: is a policy and no trace: separate policies by commas: --policies {listed}")


def check_workloads(comparison: Comparison, options: ScenarioOptions) -> None:
    """InputError if there is nothing to run, or an option says what the benchmark's workloads settle."""
    if not comparison.traces and not comparison.workloads:
        raise InputError("--trace or --workloads is missing; see `dally compare --help`")
    if comparison.traces:
        require(comparison.base, "compare", "cluster")
        return
    for name in OF_TRACES:
        if name in options.values:
            raise InputError(f"{flag_of(name)}: workloads of --workloads bring their own; it is for a --trace")


def make_runs(comparison: Comparison, out: Path | None, report: bool, batch: Batch) -> Outcome:
    """Carry out the runs of the comparison; `out` keeps them, with a page each if there is to be a report."""
    base, networks, chosen, seeds = comparison.base, comparison.networks, comparison.policies, comparison.seeds
    for name in filter(None, networks):
        check_network(name)
    where = comparison.shared or shared_folder()
    check_traces(comparison.workloads, where)
    runs = comparison_runs(trace_loads(comparison.traces, base.cluster, seeds), networks, chosen, base)
    with tempfile.TemporaryDirectory() as temporary, open_store(out) as store:
        loads = cell_loads(comparison.workloads, seeds, where, (out or Path(temporary)) / "traces")
        runs += comparison_runs(loads, networks, chosen, replace(base, **OF_TRACES))
        if out:
            runs = with_folders(runs, out / "runs", report)
        return batch.run(replicated(runs, comparison.replications), store)


def print_results(outcome: Outcome, against: str, out: Path | None, report: bool, as_json: bool) -> None:
    """Print what came of a comparison, and leave its tables and its page in `out`."""
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
        print_parts(by_queue_tables(contest))
    for line in notes(contests) if contests else ():
        typer.echo(line)
    for line in run_notes(outcome.rows):
        typer.echo(line)
    for line in unfinished(outcome.rows, "workload", "network", "policy", "seed"):
        typer.echo(line)


def run_notes(rows: Sequence[Row]) -> list[str]:
    """What runs had to say of their jobs, once for all policies where they say the same."""
    texts: dict[tuple[str, str], list[str]] = {}
    policies = {row["workload"]: set[str]() for row in rows}
    for row in rows:
        policies[row["workload"]].add(row["policy"])
        for note in filter(None, str(row.get("notes") or "").split("; ")):
            names = texts.setdefault((row["workload"], note), [])
            names += [] if row["policy"] in names else [row["policy"]]
    return [
        f"{workload}{'' if len(names) == len(policies[workload]) else ' under ' + ', '.join(names)}: {note}"
        for (workload, note), names in texts.items()
    ]


RECIPE = "venus-like"
WORKLOAD = WorkloadRequest(seed=1, jobs=1500, load=0.9, gpus=144)
CLUSTER = "3x6x8"
NETWORK = "slow"
BASELINE = "fifo-backfill"
POLICIES = (
    "fifo", "fifo-backfill", "slurm-switches", "kueue-preferred", "kueue-required", "srtf", "las", "tiresias",
    "themis", "dally-paper", "dally-paper-consolidated", "dally",
)  # fmt: skip


@examples("dally demo", "dally demo --out /tmp/demo")
def demo(out: Path = typer.Option(Path("demo-out"), metavar="DIR", help="Where to leave the report.")) -> None:
    """Compare twelve policies on a synthetic workload, three seeds each, and leave a report to open."""
    prepare_folder(out)
    trace = out / "jobs.csv"
    write_workload(trace, generate(find_recipe(RECIPE), WORKLOAD))
    typer.echo(f"{WORKLOAD.jobs} {RECIPE} jobs on {CLUSTER} (racks x machines x GPUs), network {NETWORK}:")
    comparison = Comparison(
        base=Scenario(trace="", cluster=CLUSTER, policy=BASELINE),
        policies=[Chosen(name, {}) for name in POLICIES],
        baseline=BASELINE,
        networks=[NETWORK],
        seeds=[1, 2, 3],
        traces=[str(trace)],
        replications=1,  # it is to be done within seconds
    )
    outcome = make_runs(comparison, out, True, Batch(workers_of("local", "", 0)))
    print_results(outcome, BASELINE, out, True, False)
    end(outcome)
