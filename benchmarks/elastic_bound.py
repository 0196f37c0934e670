"""How much elastic jobs could gain at all: GPUs shared out without places, restarts or delays, by rank.

usage: python -m benchmarks.elastic_bound [--cells batch32] [--networks slow,congested] [--seeds 1]
           [--share 0.5] [--shared ../shared]

At every start and end of a job the GPUs are shared out anew, greedily by what a step of a job's size adds to its
speed per GPU, over its rank: work left times GPUs (`srpt`, which knows durations), or work done (`las`, which does
not). Each size is as fast as at its closest placement. It is no proven bound: the best use of the same freedom is
hard to find.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory

from dally.benchmark.cells import Cell, prepare
from dally.runs.execute import execute

YOUNG_S = 300.0  # work that a job has done at least, for `las`


@dataclass
class FluidJob:
    """A job, what of it is left, and how fast it would be."""

    submit_s: float
    gpus: int  # that it asks for
    left_s: float
    speeds: list[tuple[int, float]]  # by size, rising
    done_s: float = 0.0


Rank = Callable[[FluidJob], float]
RANKS: dict[str, Rank] = {
    "srpt": lambda job: job.left_s * job.gpus,
    "las": lambda job: (job.done_s + YOUNG_S) * job.gpus,
}


def steps_of(speeds: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The sizes worth taking in turn: that of the most speed per GPU, and then what adds most for each GPU."""
    best = max(range(len(speeds)), key=lambda place: speeds[place][1] / speeds[place][0])
    result, rest = [speeds[best]], speeds[best + 1 :]
    while rest:
        size, speed = result[-1]
        added = [(there - speed) / (larger - size) for larger, there in rest]
        place = max(range(len(rest)), key=added.__getitem__)
        if added[place] <= 0.0:
            break
        result.append(rest[place])
        rest = rest[place + 1 :]
    return result


def shared_out(jobs: list[FluidJob], gpus: int, rank: Rank) -> dict[int, tuple[int, float]]:
    """The size and speed that each job gets, by place."""
    rows: list[tuple[float, int, tuple[int, float], tuple[int, float]]] = []
    for place, job in enumerate(jobs):
        steps = [(0, 0.0), *steps_of(job.speeds)]
        for before, after in pairwise(steps):
            worth = (after[1] - before[1]) / (after[0] - before[0]) / rank(job)
            rows.append((-worth, place, before, after))
    result: dict[int, tuple[int, float]] = {}
    free = gpus
    for _, place, before, after in sorted(rows):
        if after[0] - before[0] <= free and result.get(place, (0, 0.0)) == before:
            free -= after[0] - before[0]
            result[place] = after
    for place, job in enumerate(jobs):  # what is left goes to whoever fits at a smaller size
        fitting = [speed for speed in job.speeds if speed[0] <= free]
        if place not in result and fitting:
            free -= fitting[-1][0]
            result[place] = fitting[-1]
    return result


def mean_jct_s(jobs: list[FluidJob], gpus: int, rank: Rank) -> float:
    """The mean time from submission to end."""
    coming = sorted(jobs, key=lambda job: -job.submit_s)
    present: list[FluidJob] = []
    now, total_s = 0.0, 0.0
    while coming or present:
        if not present:
            now = max(now, coming[-1].submit_s)
        while coming and coming[-1].submit_s <= now:
            present.append(coming.pop())
        rates = shared_out(present, gpus, rank)
        span_s = min((present[place].left_s / speed for place, (_, speed) in rates.items()), default=float("inf"))
        span_s = max(1.0, span_s)
        if coming:
            span_s = min(span_s, coming[-1].submit_s - now)
        now += span_s
        for place, (_, speed) in rates.items():
            present[place].left_s -= speed * span_s
            present[place].done_s += speed * span_s
        total_s += sum(now - job.submit_s for job in present if job.left_s <= 1e-6)
        present = [job for job in present if job.left_s > 1e-6]
    return total_s / len(jobs)


def fluid_jobs(cell: Cell, share: float, shared: Path) -> tuple[list[FluidJob], int]:
    """The jobs of a cell, and its GPUs."""
    with TemporaryDirectory() as folder:
        scenario = cell.scenario(prepare(cell.workload, cell.seed, shared, Path(folder)), "dally", {})
        record = execute(replace(scenario, elastic=f"share={share:g}"))
    speed, gpus = record.speed, int(record.topology.total_gpus())
    result = []
    for job in record.outcomes:
        request = int(job.requested)
        best = speed.best_at(job, request)
        sizes = [size for size in job.sizes if size <= gpus] or [request]
        speeds = [(size, speed.speedup(job, size) / speed.best_at(job, size)) for size in sizes]
        if request <= gpus:
            result.append(
                FluidJob(job.submit_s, request, job.work_s, speeds if job.sizes else [(request, 1.0 / best)])
            )
    return result, gpus


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="batch32")
    parser.add_argument("--networks", default="slow,congested")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared")
    chosen = parser.parse_args()
    print("| cell | rank | rigid, h | elastic, h | gain |\n|---|---|---|---|---|")
    for workload, network, seed in product(
        chosen.cells.split(","), chosen.networks.split(","), chosen.seeds.split(",")
    ):
        cell = Cell(workload, network, int(seed))
        jobs, gpus = fluid_jobs(cell, chosen.share, chosen.shared)
        for name, rank in RANKS.items():
            rigid = [replace(job, speeds=[one for one in job.speeds if one[0] == job.gpus]) for job in jobs]
            before = mean_jct_s(rigid, gpus, rank) / 3600.0
            after = mean_jct_s([replace(job) for job in jobs], gpus, rank) / 3600.0
            gain = after / before - 1.0
            print(
                f"| {workload} {network} {seed} | {name} | {before:.2f} | {after:.2f} | {gain:+.1%} |", flush=True
            )


if __name__ == "__main__":
    main()
