"""`dally demo`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.commands import examples
from dally.cli.runs.batch import Batch, end, workers_of
from dally.cli.runs.compare import Comparison, make_runs, tell
from dally.runs.folder import prepare_folder
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen
from dally.traces.generate import Ask, find_recipe, generate, write_workload

RECIPE = "venus-like"
ASK = Ask(seed=1, jobs=1500, load=0.9, gpus=144)
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
    write_workload(trace, generate(find_recipe(RECIPE), ASK))
    typer.echo(f"{ASK.jobs} {RECIPE} jobs on {CLUSTER} (racks x machines x GPUs), network {NETWORK}:")
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
    tell(outcome, BASELINE, out, True, False)
    end(outcome)
