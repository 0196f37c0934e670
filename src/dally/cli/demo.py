"""`dally demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from dally.cli import compare
from dally.traces.generate import Ask, find_recipe, generate, write_workload

EXAMPLES = """Examples:

  dally demo

  dally demo --out /tmp/demo
"""
RECIPE = "venus-like"
ASK = Ask(seed=1, jobs=1500, load=0.9, gpus=144)
CLUSTER = "3x6x8"
NETWORK = "slow"
POLICIES = (
    "fifo", "fifo-backfill", "slurm-switches", "kueue-preferred", "kueue-required", "srtf", "las", "tiresias",
    "themis", "dally", "dally-consolidated",
)  # fmt: skip


def demo(out: Path = typer.Option(Path("demo-out"), metavar="DIR", help="Where to leave the report.")) -> None:
    """Compare eleven policies on a synthetic workload, and leave a report to open."""
    out.mkdir(parents=True, exist_ok=True)
    trace = out / "jobs.csv"
    write_workload(trace, generate(find_recipe(RECIPE), ASK))
    typer.echo(f"{ASK.jobs} {RECIPE} jobs on {CLUSTER} (racks x machines x GPUs), network {NETWORK}:")
    options: dict[str, Any] = {
        "trace": [str(trace)], "cluster": CLUSTER, "workloads": "", "network": NETWORK,
        "policies": [",".join(POLICIES)], "seeds": "1", "baseline": "fifo-backfill", "scenario": None,
        "network_settings": [], "congestion": None, "mix": None, "restart_s": None, "restart_per_gpu_s": None,
        "skip_impossible": None, "shared": None, "out": out, "report": True, "as_json": False, "jobs": 0,
        "engine": "local", "address": "", "progress": None,
    }  # fmt: skip
    compare.compare(**options)
