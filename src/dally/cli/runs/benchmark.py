"""`dally benchmark`, and `dally reproduce`: the same on what the paper measured, with a page about it."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Final

import typer

from dally import is_compiled
from dally.benchmark.as_published import LOADS, published_page, published_runs
from dally.benchmark.cells import NETWORKS, WORKLOADS, cells, check_traces
from dally.benchmark.reproduction import results_page
from dally.benchmark.tables_page import benchmark_runs, block_table, by_workload, page, shared_folder
from dally.cli.commands import examples
from dally.cli.runs.batch import REPLICATIONS, Batch, end, listed, makes_runs, names, open_store, whole_numbers
from dally.cli.runs.compare import SEVERAL
from dally.cli.runs.scenario_options import OPTIONS, ScenarioOptions, takes_scenario
from dally.errors import InputError
from dally.metrics.comparison import compare_rows, unfinished
from dally.metrics.summary import Row
from dally.runs.folder import prepare_folder
from dally.sweep.batch import Outcome
from dally.sweep.policy_list import both_forms
from dally.sweep.run import REPLICATIONS as REPLICATED
from dally.sweep.run import replicated
from dally.whole_file import write_whole

SEEDS: Final = "1,2,3"
OF_CELLS = (
    "trace", "cluster", "skip_impossible", "trace_format", "strict", "zone", "durations", "mix", "scenario",
    "snapshot", "queues", "gpu_speeds", "preempt", "job_progress",
    "sensitivity", "health", "elastic",
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
PAPER: Final = "runs are as the paper made them: they differ in workload, network, policy and seed alone"
PAPER_NETWORKS: Final = ("normal", "slow", "congested")
FIGURE: Final = Path("images") / "results.svg"  # beside the page
SEEDED: Final = {"seed": "those of --seeds", "seeds": SEEDS}
POLICIES = typer.Option(
    ["all"],
    metavar="NAME[:KEY=VALUE,…],…",
    help="Names of `dally policies` or FILE.py:Class, maybe with settings; -NAME leaves one of `all` out.",
)
SHARED = typer.Option(None, metavar="DIR", help="The folder of the traces.  [default: $DALLY_SHARED or ../shared]")
RUNS_FOLDER: Final = "Store finished runs and results.parquet there; stored runs are not repeated."
AS_JSON = typer.Option(False, "--json", help="Print a row per run as JSON instead of tables.")


@examples(
    "dally benchmark --out benchmark --markdown docs/results.md",
    "dally benchmark --cells batch32,paper-batch --networks slow --policies las,dally --seeds 1",
)
@takes_scenario(without=FIXED, usual=SEEDED)
@makes_runs
def benchmark(
    options: ScenarioOptions,
    batch: Batch,
    workloads: str = listed(WORKLOADS, "--cells", "Workloads."),
    networks: str = listed(NETWORKS, "--networks", "Networks."),
    policies: list[str] = POLICIES,
    flat_restart_s: float = typer.Option(
        None, min=0.0, metavar="SECONDS", help="A restart costs this for any gang.  [default: 1 s per GPU]"
    ),
    replications: int = REPLICATIONS,
    shared: Path = SHARED,
    out: Path = typer.Option(None, metavar="DIR", help=RUNS_FOLDER),
    markdown: Path = typer.Option(None, metavar="FILE", help="Write the results as a page, too."),
    as_json: bool = AS_JSON,
) -> None:
    """Run policies on the benchmark's workloads, networks and seeds."""
    if markdown:
        prepare_folder(markdown.parent, own=False)
    outcome = _run_cells(workloads, networks, policies, options, flat_restart_s, shared, out, batch, replications)
    contests = compare_rows(outcome.rows, "")
    if markdown and outcome.rows:
        command = shlex.join(["dally", *sys.argv[1:]])
        write_whole(markdown, page(contests, command).encode())
    tables = ["\n".join(block_table(here, names(networks))) + "\n" for here in by_workload(contests).values()]
    _print(outcome, "\n".join([*tables, _summary(outcome.rows)]), as_json)


@examples(
    "dally reproduce --out reproduced --page docs/results.md",
    "dally reproduce --cells paper-batch,paper-poisson --networks normal,congested --out paper",
    "dally reproduce --as-published --out published",
)
@takes_scenario(
    without={**{name: PAPER for name in OPTIONS if name not in ("seed", "seeds")}, **SEVERAL}, usual=SEEDED
)
@makes_runs
def reproduce(
    options: ScenarioOptions,
    batch: Batch,
    workloads: str = listed(WORKLOADS, "--cells", "The paper's workloads, and public traces."),
    networks: str = listed(PAPER_NETWORKS, "--networks", "Networks."),
    policies: list[str] = POLICIES,
    replications: int = REPLICATIONS,
    shared: Path = SHARED,
    out: Path = typer.Option(Path("reproduced"), metavar="DIR", help=RUNS_FOLDER),
    page: Path = typer.Option(None, metavar="FILE", help="The page to write.  [default: DIR/results.md]"),
    as_published: bool = typer.Option(
        False,
        "--as-published",
        help="Repeat the set-up of the paper's simulator instead: its constants and its rivals as coded.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Repeat the paper's experiments, and the same on public traces; write a page with its figures beside ours."""
    if as_published:
        _check_scan(workloads, networks, policies)
        _reproduce_as_published(options, shared, out, page, batch, as_json)
        return
    target = page or out / "results.md"
    prepare_folder((target.parent / FIGURE).parent, own=False)
    outcome = _run_cells(workloads, networks, policies, options, None, shared, out, batch, replications)
    if outcome.rows:
        seeds = ",".join(map(str, _seeds(options)))
        write_page(outcome.rows, target, _command(workloads, networks, policies, seeds, replications))
    _print(outcome, f"{_summary(outcome.rows)}; written to {target}", as_json)


def _check_scan(workloads: str, networks: str, policies: list[str]) -> None:
    """InputError for what the scan fixes itself."""
    stated = {"--cells": (workloads, ",".join(WORKLOADS)), "--networks": (networks, ",".join(PAPER_NETWORKS))}
    stated["--policies"] = (",".join(policies), "all")
    for name, (value, usual) in stated.items():
        if value != usual:
            raise InputError(f"{name} {value}: --as-published has its own; leave it out")


def _reproduce_as_published(
    options: ScenarioOptions, shared: Path | None, out: Path, page: Path | None, batch: Batch, as_json: bool
) -> None:
    target = page or out / "as-published.md"
    prepare_folder(target.parent, own=False)
    where = shared or shared_folder()
    check_traces(LOADS, where)
    seeds = options.seeds([1])  # traces state models: a seed draws the GPUs of gandiva-as-coded, and nothing else
    with open_store(out) as store:
        outcome = batch.run(published_runs(where, out / "traces", seeds), store)
    if outcome.rows:
        stated = "" if seeds == [1] else f" --seeds {','.join(map(str, seeds))}"
        text = published_page(compare_rows(outcome.rows, ""), f"dally reproduce --as-published{stated}")
        write_whole(target, text.encode())
    _print(outcome, f"{_summary(outcome.rows)}; written to {target}", as_json)


def _run_cells(
    workloads: str,
    networks: str,
    policies: list[str],
    options: ScenarioOptions,
    flat_restart_s: float | None,
    shared: Path | None,
    out: Path | None,
    batch: Batch,
    replications: int,
) -> Outcome:
    """Every policy in every cell, as the options name them."""
    chosen = both_forms(policies)
    every = cells(names(workloads), names(networks), _seeds(options))
    where = shared or shared_folder()
    check_traces(names(workloads), where)
    if not is_compiled():
        print("dally is not compiled here: this takes long; see `make install`", file=sys.stderr)
    changes = {name: value for name, value in options.values.items() if name != "seed"}
    with tempfile.TemporaryDirectory() as temporary, open_store(out) as store:
        runs = benchmark_runs(every, chosen, where, (out or Path(temporary)) / "traces", flat_restart_s, changes)
        return batch.run(replicated(runs, replications), store)


def _seeds(options: ScenarioOptions) -> list[int]:
    """Those of --seeds or --seed, else the benchmark's."""
    return options.seeds(whole_numbers("--seeds", SEEDS))


def _summary(rows: list[Row]) -> str:
    """Which runs left jobs unfinished, and what all took."""
    lines = unfinished(rows, "workload", "network", "policy", "seed")
    return "\n".join([*lines, f"{len(rows)} runs, {sum(row['cpu_s'] for row in rows):.1f} s CPU"])


def _print(outcome: Outcome, text: str, as_json: bool) -> None:
    values = {"rows": outcome.rows, "failures": outcome.failures}
    typer.echo(json.dumps(values, indent=2) if as_json else text)
    end(outcome)


def write_page(rows: list[Row], target: Path, command: str) -> None:
    """Write the page of a reproduction and its picture."""
    from dally.report.figures import results_figure

    contests = compare_rows(rows, "")
    write_whole(target.parent / FIGURE, results_figure(contests).encode())
    write_whole(target, results_page(contests, command, FIGURE.as_posix()).encode())


def _command(workloads: str, networks: str, policies: list[str], seeds: str, replications: int) -> str:
    """What repeats the page: the figures depend on nothing else."""
    options = {
        "--cells": (workloads, ",".join(WORKLOADS)),
        "--networks": (networks, ",".join(PAPER_NETWORKS)),
        "--policies": (",".join(policies), "all"),
        "--seeds": (seeds, SEEDS),
        "--replications": (str(replications), str(REPLICATED)),
    }
    return " ".join(
        ["dally reproduce", *(f"{name} {value}" for name, (value, usual) in options.items() if value != usual)]
    )
