"""Delay timers on a congested network: `dally-paper` beside `dally-paper-consolidated`, in stretches of time.

usage: python -m benchmarks.collapse

Everything comes from the records of the runs: starts whose timer for a farther tier had run out (decisions),
how busy the links above machines and racks were (event log), how long the queue was, how slow jobs ran.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import polars as pl

from dally.benchmark.cells import Cell, prepare
from dally.cli.output import print_table
from dally.metrics.simulated import Simulated
from dally.runs.execute import execute

SHARED = Path(__file__).resolve().parents[2] / "shared"
STRETCH_S = 5 * 86400.0
STRETCHES = 8
WORKLOAD, NETWORK, SEED = "venus80", "congested", 1


def run(policy: str, folder: Path) -> Simulated:
    """The cell under one policy."""
    prepared = prepare(WORKLOAD, SEED, SHARED, folder)
    return execute(Cell(WORKLOAD, NETWORK, SEED).scenario(prepared, policy, {}))


def stretches(record: Simulated) -> list[list[str]]:
    """One row per stretch of time."""
    events = record.all_events
    accepts = record.decisions.filter(pl.col("kind") == "accept", pl.col("gpus") > 1)
    rows = []
    for number in range(STRETCHES):
        first_s, last_s = number * STRETCH_S, (number + 1) * STRETCH_S
        inside = accepts.filter(pl.col("time_s") >= first_s, pl.col("time_s") < last_s)
        late = inside.filter(pl.col("patience_s") > 0)
        rows.append(
            [
                f"{first_s / 86400:.0f} to {last_s / 86400:.0f}",
                f"{len(inside):,}",
                f"{len(late) / max(1, len(inside)):.0%}",
                f"{mean_load(events, 'machine ', first_s, last_s):.0%}",
                f"{mean_load(events, 'rack ', first_s, last_s):.0%}",
                f"{waiting(events, last_s):,}",
                f"{slowdown(record, first_s, last_s):.2f}",
            ]
        )
    return rows


def mean_load(events: pl.DataFrame, tier: str, first_s: float, last_s: float) -> float:
    """Time mean of the load of that tier's uplinks, over all links that were ever used."""
    links = events.filter(pl.col("kind") == "link", pl.col("link").str.starts_with(tier))
    total = 0.0
    for (_,), rows in links.group_by("link", maintain_order=True):
        times, loads = rows["time_s"].to_list(), rows["load"].to_list()
        for place, load in enumerate(loads):
            until_s = times[place + 1] if place + 1 < len(times) else last_s
            total += load * max(0.0, min(until_s, last_s) - max(times[place], first_s))
    return total / (last_s - first_s) / max(1, links["link"].n_unique())


def waiting(events: pl.DataFrame, at_s: float) -> int:
    """Jobs in the queue at an instant."""
    past = events.filter(pl.col("time_s") <= at_s)
    begun = len(past.filter(pl.col("kind").is_in(["submit", "preempt", "evict"])))
    return begun - len(past.filter(pl.col("kind") == "start"))


def slowdown(record: Simulated, first_s: float, last_s: float) -> float:
    """Mean slowdown of multi-GPU jobs that finished in the stretch, by GPU-seconds of work."""
    work = time = 0.0
    for job in record.outcomes:
        if job.gpus > 8 and first_s <= job.finish_s < last_s:
            work += job.work_s * int(job.gpus)
            time += (job.compute_s + job.comm_s) * int(job.gpus)
    return time / work if work else 0.0


def main() -> None:
    """Print both tables."""
    if not SHARED.exists():
        sys.exit(f"{SHARED} is not here")
    with tempfile.TemporaryDirectory() as folder:
        for policy in ("dally-paper", "dally-paper-consolidated"):
            print(f"{WORKLOAD}, {NETWORK}, seed {SEED}: {policy}")
            print_table(
                [
                    "days",
                    "gangs started",
                    "timer run out",
                    "NICs busy",
                    "uplinks busy",
                    "waiting",
                    "slowdown > 8 GPUs",
                ],
                stretches(run(policy, Path(folder))),
                numbers_from=1,
            )


if __name__ == "__main__":
    main()
