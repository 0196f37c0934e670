"""Elastic jobs against the same jobs under `dally` at the size they ask for, on cells of the benchmark.

usage: python -m benchmarks.elastic [--cells batch32,lingjun] [--networks slow,congested] [--seeds 1,2,3]
           [--shares 0.1,0.5,1] [--loads 1] [--policies dally,sia,pollux]
           [--workers 1] [--shared ../shared]

Shares are of jobs that may run on half to twice the GPUs they ask for, in steps of a quarter. A load of 1.3 divides
all moments of submission by 1.3. `comm` is exposed communication ÷ what the same work at the same sizes would lose
alone at its closest placements, beside the background load.
"""

from __future__ import annotations

import argparse
import csv
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from dally.benchmark.cells import Cell, prepare
from dally.metrics.simulated import Simulated
from dally.model import Job
from dally.perf.network_model import NetworkModel
from dally.perf.scaling import sized
from dally.runs.execute import execute
from dally.sweep.run import Prepared

COLUMNS: Final = ("mean JCT h", "p99 h", "preemptions", "resizes", "used", "comm", "CPU s")


class Run(NamedTuple):
    """One run: its cell, how loaded, and the share of elastic jobs."""

    cell: Cell
    load: float
    share: float
    shared: Path
    policy: str = "dally"


def loaded(prepared: Prepared, load: float, folder: Path) -> Prepared:
    """The same trace with its jobs so many times as close together."""
    path = folder / f"{prepared.trace.stem}-{load:g}.csv"
    with prepared.trace.open(encoding="utf-8") as source, path.open("w", encoding="utf-8", newline="") as target:
        rows = csv.DictReader(source)
        writer = csv.DictWriter(target, list(rows.fieldnames or ()), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "submit_s": float(row["submit_s"]) / load})
    return prepared._replace(trace=path)


def reachable_s(record: Simulated) -> float:
    """Seconds of exposed communication of the work done, each part alone at the closest placement of its size."""
    speed = record.speed
    assert isinstance(speed, NetworkModel)
    total = 0.0
    for job in record.outcomes:
        account = job.size_account
        work_s = {int(job.requested): job.work_s} if account is None else account.works_at_s(job)
        total += sum(exposed_s(speed, job, gpus, done_s) for gpus, done_s in work_s.items())
    return total


def exposed_s(speed: NetworkModel, job: Job, gpus: int, done_s: float) -> float:
    """The same of so much work on so many GPUs."""
    kind = speed.kind_of(sized(job.model, job, gpus), gpus)
    exposed = kind.exposed_s / kind.closest_s if kind.closest_s > 0.0 else 0.0
    return done_s / kind.speedup * (exposed + speed.best_at(job, gpus) - 1.0)


def measured(run: Run) -> dict[str, float | str]:
    """What the run is like."""
    cell = run.cell
    with TemporaryDirectory() as folder:
        prepared = prepare(cell.workload, cell.seed, run.shared, Path(folder))
        if run.load != 1.0:
            prepared = loaded(prepared, run.load, Path(folder))
        scenario = cell.scenario(prepared, run.policy, {})
        if run.share > 0.0:
            scenario = replace(scenario, elastic=f"share={run.share:g}")
        record = execute(scenario)
    summary = record.summary
    return {
        "cell": f"{cell.workload} {cell.network} {cell.seed}",
        "load": run.load,
        "share": run.share,
        "policy": run.policy,
        "mean JCT h": summary["jct_mean_s"] / 3600.0,
        "p99 h": summary["jct_p99_s"] / 3600.0,
        "preemptions": summary["preemptions"],
        "resizes": summary.get("resizes", 0),
        "used": summary["utilization"],
        "comm": summary["comm_s"] / reachable_s(record),
        "CPU s": summary["cpu_s"],
    }


def line(row: dict[str, float | str], rigid: dict[str, float | str]) -> str:
    """A row for people; times and preemptions also against those of rigid jobs."""
    texts = [f"{row['cell']}", f"{row['load']:g}", f"{row['share']:g}", f"{row['policy']}"]
    for name in COLUMNS:
        value, before = float(row[name]), float(rigid[name])
        compared = name in ("mean JCT h", "p99 h", "preemptions") and row is not rigid and before > 0.0
        texts.append(f"{value:.4g}" + (f" ({value / before - 1.0:+.1%})" if compared else ""))
    return "| " + " | ".join(texts) + " |"


def numbers(text: str) -> list[float]:
    """The numbers of a list with commas."""
    return [float(part) for part in text.split(",")]


def main() -> None:
    """Print a table, each row as soon as it and those before it are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="venus80,itp72,batch32,lingjun")
    parser.add_argument("--networks", default="slow,congested")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--shares", default="0.1,0.5,1")
    parser.add_argument("--loads", default="1")
    parser.add_argument("--policies", default="dally", help="that run the elastic jobs")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    seeds = [int(seed) for seed in numbers(chosen.seeds)]
    cells = [Cell(*parts) for parts in product(chosen.cells.split(","), chosen.networks.split(","), seeds)]
    elastic = [(share, policy) for share in numbers(chosen.shares) for policy in chosen.policies.split(",")]
    runs = [
        Run(cell, load, share, chosen.shared, policy)
        for cell in cells
        for load in numbers(chosen.loads)
        for share, policy in [(0.0, "dally"), *elastic]
    ]
    print("| " + " | ".join(("cell", "load", "share", "policy", *COLUMNS)) + " |")
    print("|" + "---|" * (len(COLUMNS) + 4))
    rows = []
    with ProcessPoolExecutor(chosen.workers) as workers:
        for row in workers.map(measured, runs):
            rows.append(row)
            rigid = next(each for each in reversed(rows) if each["share"] == 0.0)
            print(line(row, rigid), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
