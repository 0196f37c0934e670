"""`dally demo`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from dally.cli.output import print_table, progress_of
from dally.metrics.summary import summarize
from dally.report.times import span
from dally.scenario import Scenario
from dally.traces.generate import Ask, find_recipe, generate, write_workload

EXAMPLES = "Example: dally demo"
RECIPE = "venus-like"
ASK = Ask(seed=1, jobs=1500, load=0.9, gpus=144)
CLUSTER = "3x6x8"
NETWORK = "slow"
POLICIES = ("fifo", "fifo-backfill", "las", "dally", "dally-consolidated")


def demo() -> None:
    """Compare five policies on a synthetic workload."""
    rows = []
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "demo.csv"
        write_workload(trace, generate(find_recipe(RECIPE), ASK))
        for policy in POLICIES:
            simulation, _ = Scenario(str(trace), CLUSTER, policy, network=NETWORK).simulation()
            with progress_of(len(simulation.jobs), None) as report:
                simulation.run(report=report)
            rows.append((policy, summarize(simulation)))
    bound = rows[0][1]
    typer.echo(f"{bound['jobs']} {RECIPE} jobs on {CLUSTER} (racks x machines x GPUs), network {NETWORK}:")
    print_table(
        ["policy", "mean JCT", "p50", "p99", "mean wait", "lost to network", "makespan", "preemptions"],
        [
            [
                policy,
                span(summary["jct_mean_s"]),
                span(summary["jct_p50_s"]),
                span(summary["jct_p99_s"]),
                span(summary["queue_mean_s"]),
                f"{summary['comm_gpu_s'] / (summary['comm_gpu_s'] + summary['compute_gpu_s']):.1%}",
                span(summary["makespan_s"]),
                str(summary["preemptions"]),
            ]
            for policy, summary in rows
        ],
        numbers_from=1,
    )
    typer.echo(
        f"No scheduler can do better than a mean JCT of {span(bound['jct_bound_s'])}"
        f" and a makespan of {span(bound['makespan_bound_s'])}."
    )
