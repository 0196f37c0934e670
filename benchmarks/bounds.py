"""The lower bounds of the benchmark's workloads, one by one, and the CPU time they take.

usage: python -m benchmarks.bounds [WORKLOAD ...]     (needs shared/traces; compiled: no PYTHONPATH to src/)

Durations are the traces' own: no network, so no background load. Means over three seeds where seeds draw the jobs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from dally.benchmark.cells import WORKLOADS, prepare
from dally.cli.output import print_table
from dally.cluster import read_topology
from dally.metrics.bounds.jct import JctBounds, least_makespan_s
from dally.metrics.bounds.offered import Workload, workload_of
from dally.traces import read_csv

SHARED = Path(__file__).resolve().parents[2] / "shared"
HEADINGS = ["workload", "jobs", "makespan, h", "mean duration, ks", "(a)", "(b)", "(c)", "CPU, s"]


def load(name: str, seed: int, folder: Path) -> Workload:
    """The workload's jobs that fit on its cluster."""
    prepared = prepare(name, seed, SHARED, folder)
    gpus = read_topology(prepared.cluster).total_gpus()
    jobs = [job for job in read_csv(prepared.trace, most_gpus=1 << 60).jobs if job.gpus <= gpus]
    return workload_of(jobs, gpus)


def row(name: str, folder: Path) -> list[str]:
    """One line of the table: means over the seeds."""
    workloads = [load(name, seed, folder) for seed in ((1, 2, 3) if name == "batch32" else (1,))]
    start_s = time.process_time()
    found = [JctBounds(workload) for workload in workloads]
    cpu_s = (time.process_time() - start_s) / len(found)
    columns = [
        [bounds.duration_s for bounds in found],
        [bounds.one_machine_s for bounds in found],
        [bounds.busy_time_s for bounds in found],
        [bounds.priced_s for bounds in found],
    ]
    makespan_h = sum(least_makespan_s(workload) for workload in workloads) / len(workloads) / 3600.0
    means = [f"{sum(column) / len(column) / 1000.0:.2f}" for column in columns]
    return [name, f"{len(workloads[0]):,}", f"{makespan_h:.1f}", *means, f"{cpu_s:.2f}"]


def main(names: list[str]) -> int:
    """Print the table; 0 also where the traces are not there."""
    if not (SHARED / "traces").exists():
        print(f"{SHARED / 'traces'} is not here: nothing to measure")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        print_table(HEADINGS, [row(name, Path(folder)) for name in names or WORKLOADS], numbers_from=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
