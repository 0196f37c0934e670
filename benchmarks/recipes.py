"""Generated workloads against the traces that their recipes were made from.

usage: python -m benchmarks.recipes [FOLDER]     (FOLDER holds the traces, ../shared/traces by default)

Each recipe makes as many jobs in as many days as its source has. Hours of the day are counted from the start of the
trace, since no trace says what time its first job came. Exits with 1 when a workload misses its source by more
than LIMITS.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.recipe_sources import SOURCES, TRACES, read_source
from dally.traces.generate import WorkloadRequest, find_recipe, generate

RECIPES = ("philly-like", "venus-like", "lingjun-like", "itp-like")
SEEDS = (1, 2, 3)


class AnyJob(Protocol):
    """What a job of a trace and a generated one have in common."""

    @property
    def submit_s(self) -> float: ...
    @property
    def gpus(self) -> int: ...
    @property
    def duration_s(self) -> float: ...


class Measures(NamedTuple):
    """A workload in the terms of the comparison."""

    shares: dict[int, float]  # of jobs, by GPUs
    p50_s: float
    p90_s: float
    peak_to_trough: float  # of mean arrivals by hour of the day
    over_8: float  # share of GPU-hours
    gpu_hours: float
    burstiness: float  # variance ÷ mean of arrivals per hour: 1 for Poisson


class Differences(NamedTuple):
    """By how much a workload misses its source: points for shares, ratios less 1 for the others."""

    share_points: float
    p50: float
    p90: float
    peak_to_trough: float
    over_8_points: float


LIMITS = Differences(2.0, 0.15, 0.15, 0.25, 5.0)


def measure(jobs: Sequence[AnyJob]) -> Measures:
    """The measures of jobs in order of submission."""
    sizes = Counter(job.gpus for job in jobs)
    durations_s = sorted(job.duration_s for job in jobs)
    gpu_s = sum(job.gpus * job.duration_s for job in jobs)
    hourly = Counter(int(job.submit_s) // 3600 for job in jobs)
    arrivals = [hourly[hour] for hour in range(max(hourly) + 1)]
    mean = len(jobs) / len(arrivals)
    by_hour = [sum(arrivals[hour::24]) / len(arrivals[hour::24]) for hour in range(24)]
    return Measures(
        shares={gpus: count / len(jobs) for gpus, count in sizes.items()},
        p50_s=durations_s[len(jobs) // 2],
        p90_s=durations_s[len(jobs) * 9 // 10],
        peak_to_trough=max(by_hour) / min(by_hour),
        over_8=sum(job.gpus * job.duration_s for job in jobs if job.gpus > 8) / gpu_s,
        gpu_hours=gpu_s / 3600,
        burstiness=sum((count - mean) ** 2 for count in arrivals) / len(arrivals) / mean,
    )


def differences(made: Measures, source: Measures) -> Differences:
    """By how much the first misses the second."""
    sizes = made.shares.keys() | source.shares.keys()
    return Differences(
        share_points=100 * max(abs(made.shares.get(size, 0.0) - source.shares.get(size, 0.0)) for size in sizes),
        p50=abs(made.p50_s / source.p50_s - 1),
        p90=abs(made.p90_s / source.p90_s - 1),
        peak_to_trough=abs(made.peak_to_trough / source.peak_to_trough - 1),
        over_8_points=100 * abs(made.over_8 - source.over_8),
    )


def within(found: Differences) -> bool:
    """Whether no difference is over its limit."""
    return all(difference <= limit for difference, limit in zip(found, LIMITS, strict=True))


def source_measures(folder: Path, recipe: str) -> Measures:
    """The measures of the trace behind a recipe."""
    return measure(read_source(folder, SOURCES[recipe]))


def made_measures(recipe: str, seed: int) -> Measures:
    """The measures of a generated workload as large as its source."""
    known = find_recipe(recipe)
    return measure(generate(known, WorkloadRequest(seed=seed, jobs=known.jobs)).jobs)


def row(name: str, found: Measures, missed: Differences | None) -> str:
    """A line of the table."""
    shares = "" if missed is None else f"{missed.share_points:.2f}"
    verdict = "" if missed is None else "ok" if within(missed) else "MISSED"
    return (
        f"{name:<22} {shares:>11} {found.p50_s:>8,.0f} {found.p90_s:>8,.0f} {found.peak_to_trough:>13.2f}"
        f" {found.over_8:>11.1%} {found.gpu_hours:>11,.0f} {found.burstiness:>10.0f}  {verdict}"
    ).rstrip()


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES
    if not folder.exists():
        sys.exit(f"{folder}: the traces are not here")
    fine = True
    print(
        f"{'':<22} {'size shares':>11} {'p50':>8} {'p90':>8} {'peak÷trough':>13} {'over 8 GPUs':>11}"
        f" {'GPU-hours':>11} {'burstiness':>10}"
    )
    print(f"{'':<22} {'max points':>11} {'s':>8} {'s':>8} {'hour of day':>13} {'of GPU-h':>11}")
    for recipe in RECIPES:
        source = source_measures(folder, recipe)
        print(row(f"{recipe} source", source, None))
        for seed in SEEDS:
            made = made_measures(recipe, seed)
            missed = differences(made, source)
            fine = fine and within(missed)
            print(row(f"  seed {seed}", made, missed))
    limits = f"{LIMITS.share_points:g} points, {LIMITS.p50:.0%}, {LIMITS.p90:.0%}, {LIMITS.peak_to_trough:.0%}"
    print(f"limits: {limits}, {LIMITS.over_8_points:g} points; {'all kept' if fine else 'NOT kept'}")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
