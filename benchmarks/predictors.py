"""How well durations are foreseen on real traces, and whether a forest beats medians.

usage: python -m benchmarks.predictors [--cells …]

Each trace is replayed as if every job started when it was submitted: at its submission a prediction is asked
for, at its end the predictor learns. Off by: |predicted - real| ÷ real; factor: e^mean |ln(predicted ÷ real)|;
durations below 1 s count as 1 s. The first jobs, of which nothing can be said, are left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from heapq import heappop, heappush
from itertools import pairwise
from math import exp, log
from pathlib import Path
from time import process_time
from typing import NamedTuple

from dally.benchmark.cells import WORKLOADS, prepare
from dally.errors import InputError
from dally.metrics.summary import mean, quantile
from dally.model import Job
from dally.policies.prediction.base import Predictor
from dally.policies.prediction.named import PREDICTORS, make_predictor
from dally.traces import read_csv

SHARED = Path(__file__).resolve().parents[2] / "shared"
CELLS = ("venus80", "itp72", "philly200")


class Errors(NamedTuple):
    """One predictor on one trace."""

    predicted: int
    off_p50: float
    off_p90: float
    factor: float
    within_2: float  # share of jobs predicted within a factor of 2
    order: float  # share of pairs of successive jobs whose longer one is foreseen
    cpu_s: float


def replayed(jobs: list[Job], predictor: Predictor) -> list[float]:
    """What is predicted of each job."""
    said: list[float] = []
    running: list[tuple[float, int]] = []
    for job in jobs:
        while running and running[0][0] <= job.submit_s:
            end_s, index = heappop(running)
            predictor.learn(jobs[index], end_s)
        said.append(predictor.predict_s(job, job.submit_s))
        heappush(running, (job.submit_s + job.duration_s, int(job.index)))
    return said


def measure(jobs: list[Job], name: str) -> Errors:
    began = process_time()
    said = replayed(jobs, make_predictor(name))
    cpu_s = process_time() - began
    pairs = [(max(p, 1.0), max(job.duration_s, 1.0)) for p, job in zip(said, jobs, strict=True) if p >= 0.0]
    off = sorted(abs(p - real) / real for p, real in pairs)
    logs = [abs(log(p / real)) for p, real in pairs]
    # What an order makes of predictions: which of two jobs is the longer? A tie is half right.
    turns = [0.5 if p == q else float((p < q) == (a < b)) for (p, a), (q, b) in pairwise(pairs) if a != b]
    return Errors(
        len(pairs), quantile(off, 0.5), quantile(off, 0.9), exp(mean(logs)),
        mean([float(value <= log(2.0)) for value in logs]), mean(turns), cpu_s,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="How well durations are foreseen on real traces.")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), metavar="NAME", help=", ".join(WORKLOADS))
    given = parser.parse_args()
    heading = (
        f"{'':24}{'jobs':>8}{'off by p50':>12}{'p90':>9}{'factor':>9}{'within 2':>10}{'order':>8}{'CPU, s':>9}"
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            print(heading)
            for cell in given.cells:
                jobs = read_csv(prepare(cell, 1, SHARED, Path(folder)).trace, most_gpus=1 << 60).jobs
                for name in PREDICTORS:
                    if name != "none":
                        show(cell, name, measure(jobs, name))
    except InputError as error:
        sys.exit(f"error: {error}")


def show(cell: str, name: str, found: Errors) -> None:
    print(
        f"{cell:12}{name:12}{found.predicted:>8,}{found.off_p50:>12.0%}{found.off_p90:>9.0%}{found.factor:>9.2f}"
        f"{found.within_2:>10.0%}{found.order:>8.0%}{found.cpu_s:>9.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
