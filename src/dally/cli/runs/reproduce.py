"""`dally reproduce`."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dally.benchmark.cells import WORKLOADS
from dally.benchmark.reproduction import results_page
from dally.cli.runs import many
from dally.cli.runs.benchmark import SEEDS, run_cells, seeds_of, told
from dally.cli.runs.compare import SEVERAL
from dally.cli.runs.given import Given, takes_scenario
from dally.cli.runs.scenario_options import OPTIONS
from dally.metrics.comparison import compare_rows
from dally.metrics.row import Row
from dally.runs.folder import prepare_folder
from dally.sweep.replications import REPLICATIONS
from dally.whole_file import write_whole

EXAMPLES = """Examples:

  dally reproduce --out reproduced --page docs/results.md

  dally reproduce --cells paper-batch,paper-poisson --networks normal,congested --out paper
"""
FIGURE = Path("images") / "results.svg"  # beside the page
USUAL = {
    "--cells": ",".join(WORKLOADS),
    "--networks": "normal,slow,congested",
    "--policies": "all",
    "--seeds": SEEDS,
    "--replications": str(REPLICATIONS),
}


PAPER = "runs are as the paper made them: they differ in workload, network, policy and seed alone"


@takes_scenario(
    without={**{name: PAPER for name in OPTIONS if name not in ("seed", "seeds")}, **SEVERAL},
    usual={"seed": "those of --seeds", "seeds": USUAL["--seeds"]},
)
def reproduce(
    given: Given,
    workloads: str = many.listed(WORKLOADS, "--cells", "The paper's workloads, and public traces."),
    networks: str = many.listed(USUAL["--networks"].split(","), "--networks", "Networks."),
    policies: list[str] = typer.Option(
        [USUAL["--policies"]], metavar="NAME,…", help="Names from `dally policies`."
    ),
    replications: int = many.REPLICATIONS,
    shared: Path = typer.Option(
        None, metavar="DIR", help="Where the traces lie.  [default: $DALLY_SHARED or ../shared]"
    ),
    out: Path = typer.Option(
        Path("reproduced"), metavar="DIR", help="Keep finished runs there; what is kept is not run again."
    ),
    page: Path = typer.Option(None, metavar="FILE", help="The page to write.  [default: DIR/results.md]"),
    as_json: bool = typer.Option(False, "--json", help="Print a row per run as JSON."),
    jobs: int = many.JOBS,
    engine: str = many.ENGINE,
    address: str = many.ADDRESS,
    progress: bool = many.PROGRESS,
) -> None:
    """Repeat the paper's experiments, and the same on public traces; write a page with its figures beside ours."""
    target = page or out / "results.md"
    prepare_folder((target.parent / FIGURE).parent, own=False)
    runner = many.workers_of(engine, address, jobs)
    outcome = run_cells(workloads, networks, policies, given, None, shared, out, runner, progress, replications)
    rows = outcome.rows
    if rows:
        seeds = ",".join(map(str, seeds_of(given)))
        leave(rows, target, _command(workloads, networks, policies, seeds, replications))
    if as_json:
        typer.echo(json.dumps({"rows": rows, "failures": outcome.failures}, indent=2))
    else:
        typer.echo(f"{told(rows)}; written to {target}")
    many.end(outcome)


def leave(rows: list[Row], target: Path, command: str) -> None:
    """Write the page and its picture."""
    from dally.report.results_figure import results_figure

    contests = compare_rows(rows, "")
    write_whole(target.parent / FIGURE, results_figure(contests).encode())
    write_whole(target, results_page(contests, command, FIGURE.as_posix()).encode())


def _command(workloads: str, networks: str, policies: list[str], seeds: str, replications: int) -> str:
    """What repeats the page: the figures depend on nothing else."""
    given = {
        "--cells": workloads, "--networks": networks, "--policies": ",".join(policies), "--seeds": seeds,
        "--replications": str(replications),
    }  # fmt: skip
    return " ".join(
        ["dally reproduce", *(f"{name} {value}" for name, value in given.items() if value != USUAL[name])]
    )
