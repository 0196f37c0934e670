"""How a cluster fares over time, as charts show it: named series on one axis of times, live or of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SLOT_SIZES: Final = (8, 16, 32, 64)  # GPUs of the gangs whose slots are counted
# Of waiting jobs: which slot would hold them.
SIZE_CLASSES: Final = {
    "1": "1–8 GPUs",
    "9": "9–16 GPUs",
    "17": "17–32 GPUs",
    "33": "33–64 GPUs",
    "65": "65 or more",
}


class Topic(NamedTuple):
    """What one chart is about."""

    name: str
    title: str
    unit: str


TOPICS: Final = (
    Topic("gpus", "GPUs used and useful", "GPUs"),
    Topic("waiting_jobs", "Waiting jobs by size", "jobs"),
    Topic("waiting_gpus", "GPUs that waiting jobs ask for, by size", "GPUs"),
    Topic("slots", "Gangs that could start now", "gangs"),
    Topic("fragmentation", "Fragmentation", "% of free GPUs"),
    Topic("timers", "How long demands delay for a closer place", "min"),
    Topic("preemptions", "Preemptions", "preemptions"),
    Topic("cycles", "CPU time of a cycle", "ms"),
)


@dataclass(frozen=True)
class TrendLine:
    """One line of a chart, in the unit of its topic; None: not known at that time."""

    name: str
    topic: str
    label: str
    values: list[float | None]


@dataclass(frozen=True)
class Trends:
    """Columns of equal length. Each point stands for `every_s` seconds up to its time: means, but for counts."""

    at_s: list[float]  # of the engine's clock
    wall_s: list[float]  # the same in seconds since 1970, or where a simulation has no dates, since its start
    every_s: float  # of the wall clock, as `wall_s`
    series: list[TrendLine] = field(default_factory=list)

    def of(self, topic: str) -> list[TrendLine]:
        """The lines of one chart."""
        return [one for one in self.series if one.topic == topic]


@dataclass(frozen=True)
class Point:
    """All numbers of one moment, or the means over some time, in the units of their topics (GAUGES says which)."""

    values: dict[str, float]
    timers_s: dict[int, tuple[float | None, ...]] = field(default_factory=dict)  # by GPUs, then by tier from 1 on


# Series that every sample may have: name, topic, label.
GAUGES: Final = (
    ("gpus_up", "gpus", "in service"),
    ("gpus_used", "gpus", "used"),
    ("gpus_useful", "gpus", "useful"),
    *((f"waiting_jobs_{name}", "waiting_jobs", label) for name, label in SIZE_CLASSES.items()),
    *((f"waiting_gpus_{name}", "waiting_gpus", label) for name, label in SIZE_CLASSES.items()),
    *((f"slots_{size}", "slots", f"of {size} GPUs") for size in SLOT_SIZES),
    ("fragmentation", "fragmentation", "fragmentation"),
    ("preemptions", "preemptions", "preemptions"),
    ("cycle_ms", "cycles", "mean"),
    ("longest_cycle_ms", "cycles", "longest"),
)


def size_class(gpus: int) -> str:
    """The class of a job of that size, as in `waiting_jobs_CLASS`."""
    return next((name for name in reversed(SIZE_CLASSES) if gpus >= int(name)), "1")


def slots_at(free: Sequence[Sequence[int]], tier: int, gpus: int) -> int:
    """How many gangs could start now, each inside one domain of the tier; `free` is by tier, then by domain.

    The tier is `Topology.closest_tier` of the size: below 0 there is none, and no slot.
    """
    return sum(available // gpus for available in free[tier]) if tier >= 0 else 0


def fragmented_share(free_of_machines: Iterable[int], largest: int) -> float:
    """The share of the free GPUs that cannot serve a whole largest machine, as `cluster.slots` has it."""
    free = list(free_of_machines)
    whole = sum(gpus // largest for gpus in free) * largest
    return (sum(free) - whole) / sum(free) if sum(free) > 0 else 0.0


def trends_of(
    at_s: list[float], wall_s: list[float], every_s: float, points: Sequence[Point], tiers: Sequence[str]
) -> Trends:
    """The points as columns; series that no point has are left out."""
    result = [
        TrendLine(name, topic, label, [point.values.get(name) for point in points])
        for name, topic, label in GAUGES
        if any(name in point.values for point in points)
    ]
    return Trends(at_s, wall_s, every_s, [*result, *_timers(points, tiers)])


def _timers(points: Sequence[Point], tiers: Sequence[str]) -> list[TrendLine]:
    """A line per size and tier above the machine, if it ever delays for closer than that."""
    result = []
    for gpus in sorted({size for point in points for size in point.timers_s}):
        for place, tier in enumerate(tiers[1:]):
            values = [_minutes(point.timers_s.get(gpus, ()), place) for point in points]
            if any(values):
                result.append(TrendLine(f"timer_{gpus}_{tier}", "timers", f"{gpus} GPUs, {tier}", values))
    return result


def _minutes(timers_s: Sequence[float | None], place: int) -> float | None:
    seconds = timers_s[place] if place < len(timers_s) else None
    return None if seconds is None else seconds / 60.0
