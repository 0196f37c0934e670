"""Writes the statistics behind `dally trace generate`: summaries of public traces, not the traces.

usage: python -m benchmarks.recipe_statistics [FOLDER] > src/dally/traces/generate/recipes.toml

FOLDER holds the traces, ../shared/traces by default. docs/workloads.md explains the numbers.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log
from pathlib import Path
from statistics import fmean, median

from benchmarks.recipe_sources import DAY_S, LENDER, SOURCES, TRACES, Source, SourceJob, read_source

QUANTILES = (0, 10, 25, 40, 50, 60, 70, 80, 90, 95, 97, 99, 100)  # percent
CLASSES = (1, 4, 8, 32, 128, 1 << 30)  # durations are summed up by gangs of up to so many GPUs
BURST_S = 60  # a job this soon after the last of its user and size belongs to a burst
SIMILAR = 1.5  # a job recurs if one of the last few of its user and size took as long, up to this factor
LAST_FEW = 5
FEW_JOBS = 3  # a size with fewer is no size of its own
FEW_IN_CLASS = 30
HEAD = f"""# Written by `python -m benchmarks.recipe_statistics` from public traces.
# docs/workloads.md explains the fields.
quantiles = {list(QUANTILES)} # percent, of durations_s
"""


def quantile(ordered: Sequence[float], percent: float) -> float:
    """The quantile of sorted values, between two of them by a straight line."""
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def kept_sizes(jobs: Sequence[SourceJob]) -> dict[int, int]:
    """Each size, and the one it counts for: rare ones without many GPU-hours join the nearest of the others."""
    counts = Counter(job.gpus for job in jobs)
    gpu_s: Counter[int] = Counter()
    for job in jobs:
        gpu_s[job.gpus] += round(job.gpus * job.duration_s)
    kept = {
        size
        for size, count in counts.items()
        if count >= FEW_JOBS and (count >= len(jobs) / 1000 or gpu_s[size] >= gpu_s.total() / 200)
    }
    return {size: min(kept, key=lambda near: (abs(log(near / size)), near)) for size in sorted(counts)}


def duration_classes(jobs: Sequence[SourceJob], sizes: dict[int, int]) -> dict[str, list[float]]:
    """Durations at QUANTILES by the largest size of their class; a class of few jobs joins the one below."""
    classes: list[list[SourceJob]] = []
    for least, most in pairwise((0, *CLASSES)):
        members = [job for job in jobs if least < sizes[job.gpus] <= most]
        if classes and len(members) < FEW_IN_CLASS:
            classes[-1] += members
        elif members:
            classes.append(members)
    return {str(max(sizes[job.gpus] for job in own)): duration_quantiles(own, sizes) for own in classes}


def duration_quantiles(jobs: Sequence[SourceJob], sizes: dict[int, int]) -> list[float]:
    """Durations of one class at QUANTILES. The last is fitted: curve and trace agree in GPU-hours.

    The curve joins them by straight lines of log duration, and the longest few hold much of the GPU-hours.
    """
    ordered = sorted(job.duration_s for job in jobs)
    knots = [max(quantile(ordered, percent), 1.0) for percent in QUANTILES]
    target_s = sum(job.gpus * job.duration_s for job in jobs) / sum(sizes[job.gpus] for job in jobs)
    body_s = sum(
        (QUANTILES[place + 1] - QUANTILES[place]) / 100 * piece_mean(knots[place], knots[place + 1])
        for place in range(len(knots) - 2)
    )
    tail_s = (target_s - body_s) * 100 / (QUANTILES[-1] - QUANTILES[-2])
    knots[-1] = solve(lambda top: piece_mean(knots[-2], top), tail_s, knots[-2], 3 * knots[-1])
    return [float(f"{knot:.3g}") for knot in knots]


def piece_mean(low: float, high: float) -> float:
    """The mean of a curve that runs straight from log low to log high."""
    return low if high <= low * (1 + 1e-9) else (high - low) / log(high / low)


def solve(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a rising function takes the value, or the nearer end."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return low


def per_hour_of_day(submits_s: Sequence[float]) -> list[float]:
    """Mean arrivals in each hour of the day, over the days on which the trace holds that hour."""
    hours = int(max(submits_s)) // 3600 + 1
    counts = Counter(int(submit_s) // 3600 % 24 for submit_s in submits_s)
    return [counts[hour] / max(1, (hours - hour + 23) // 24) for hour in range(24)]


def rhythm(jobs: Sequence[SourceJob]) -> dict[str, object]:
    """Arrivals by hour of the day and by day of the week, and how much a day differs from its kind."""
    by_hour = per_hour_of_day([job.submit_s for job in jobs])
    whole_days = int(jobs[-1].submit_s) // DAY_S
    counts = Counter(int(job.submit_s) // DAY_S for job in jobs)
    daily = [counts[day] for day in range(whole_days)]
    by_weekday = [fmean(daily[day::7]) for day in range(7)]
    noise = sorted(log(max(count, 1) / by_weekday[day % 7]) for day, count in enumerate(daily))
    return {
        "hours": [round(value / fmean(by_hour), 3) for value in by_hour],
        "weekdays": [round(value / fmean(by_weekday), 2) for value in by_weekday],
        "day_spread": round(exp((quantile(noise, 84) - quantile(noise, 16)) / 2), 2),
    }


def repeats(jobs: Sequence[SourceJob]) -> dict[str, object]:
    """How many jobs come in bursts or recur, and the usual gap in a burst."""
    last: dict[tuple[str, int], list[SourceJob]] = defaultdict(list)
    gaps_s: list[float] = []
    recurring = 0
    for job in jobs:
        before = last[job.user, job.gpus]
        if before and job.submit_s - before[-1].submit_s <= BURST_S:
            gaps_s.append(job.submit_s - before[-1].submit_s)
        recurring += any(
            1 / SIMILAR <= max(job.duration_s, 1.0) / max(old.duration_s, 1.0) <= SIMILAR for old in before
        )
        last[job.user, job.gpus] = [*before[1 - LAST_FEW :], job]
    return {
        "burst": round(len(gaps_s) / len(jobs), 2),
        "burst_gap_s": round(median(gaps_s)) if gaps_s else 0,
        "recurring": round(recurring / len(jobs), 2),
    }


def users(jobs: Sequence[SourceJob]) -> dict[str, object]:
    """How many users there are; with weights 1 ÷ rank^skew the busiest tenth has its share of jobs."""
    counts = sorted(Counter(job.user for job in jobs).values(), reverse=True)
    busiest = max(1, len(counts) // 10)

    def share(skew: float) -> float:
        weights = [float((rank + 1) ** -skew) for rank in range(len(counts))]
        return sum(weights[:busiest]) / sum(weights)

    skew = solve(share, sum(counts[:busiest]) / len(jobs), 0.0, 4.0)
    return {"users": len(counts), "user_skew": round(skew, 2)}


def ends(jobs: Sequence[SourceJob]) -> dict[str, object]:
    """How jobs end, by quarter of durations: percent of the quarter that did not pass, by status."""
    ordered = sorted(jobs, key=lambda job: job.duration_s)
    cuts = [round(ordered[len(ordered) * quarter // 4].duration_s) for quarter in (1, 2, 3)]
    quarters = [Counter[str]() for _ in range(4)]
    for job in ordered:
        quarters[sum(job.duration_s >= cut for cut in cuts)][job.status] += 1
    statuses = sorted({job.status for job in jobs} - {"Pass"})
    shares = {
        status: [round(100 * quarter[status] / quarter.total(), 1) for quarter in quarters] for status in statuses
    }
    return {"ends_below_s": cuts, "ends": shares}


def statistics(folder: Path, source: Source, lent: dict[str, object]) -> dict[str, object]:
    """All numbers of a recipe; those that its source does not know are lent."""
    jobs = read_source(folder, source)
    sizes = kept_sizes(jobs)
    counts = Counter(sizes[job.gpus] for job in jobs)
    found: dict[str, object] = {
        "about": source.about,
        "source": source.source,
        "borrowed": source.borrowed(),
        "arrivals": source.arrivals,
        "cluster_gpus": source.cluster_gpus,
        "jobs": len(jobs),
        "days": round(jobs[-1].submit_s / DAY_S, 2),
        "shares": {str(size): round(100 * counts[size] / len(jobs), 2) for size in sorted(counts)},
        "durations_s": duration_classes(jobs, sizes),
    }
    found |= users(jobs) if source.knows_users else {key: lent[key] for key in ("users", "user_skew")}
    if source.arrivals == "rhythm":
        found |= rhythm(jobs) | repeats(jobs) | ends(jobs)
        found |= {} if source.knows_users else {"recurring": lent["recurring"], "ends": lent["ends"]}
    return found


def toml_of(name: str, numbers: dict[str, object]) -> str:
    """A recipe as a TOML table; tables within it come last."""
    lines = [f"[{name}]"]
    tables = []
    for key, value in numbers.items():
        if isinstance(value, dict):
            tables += [f"[{name}.{key}]", *(f"{inner} = {row}" for inner, row in value.items())]
        else:
            lines.append(f"{key} = {value}" if not isinstance(value, str) else f'{key} = "{value}"')
    return "\n".join([*lines, *tables]) + "\n"


def recipes_toml(folder: Path) -> str:
    """The text of recipes.toml."""
    lent = statistics(folder, SOURCES[LENDER], {})
    tables = [toml_of(name, statistics(folder, source, lent)) for name, source in SOURCES.items()]
    return "\n".join([HEAD, *tables])


def main() -> None:
    """Print recipes.toml."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES
    print(recipes_toml(folder), end="")


if __name__ == "__main__":
    main()
