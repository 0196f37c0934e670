"""How a finished run fared between two moments: means of what the log says, over equal spans of time."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import polars as pl

from dally.metrics.over_time import fragmentation, step_means, time_edges
from dally.metrics.record import Record
from dally.metrics.trends import SIZE_CLASSES, SLOT_SIZES, Point, Trends, size_class, trends_of
from dally.report.explanation.course import RUNS, WAITS
from dally.web.replay.replay_status import StatusHistory


class RunTrends:
    """Step functions of a whole run, made once."""

    def __init__(self, run: Record, statuses: StatusHistory) -> None:
        self._statuses = statuses
        self._tiers = run.tiers
        self._levels: dict[str, pl.DataFrame] = {  # `time_s` and `level`, which holds from then on
            "gpus_up": _gpus_up(run),
            **_of_jobs(statuses),
            **_of_slots(run),
        }
        course = statuses.course
        self._preempted_s = [
            time_s
            for act, time_s in enumerate(course.times)
            if course.makes[act] == WAITS and course.preempted[act] > course.preempted[course.before[act]]
        ]

    def between(self, from_s: float, to_s: float, most: int) -> Trends:
        """At most so many points; each stands for the time since the one before."""
        edges = time_edges(from_s, to_s, max(1, most))
        means = {
            name: step_means(levels["time_s"], levels["level"], edges) for name, levels in self._levels.items()
        }
        means["preemptions"] = [
            float(bisect_right(self._preempted_s, to) - bisect_right(self._preempted_s, since))
            for since, to in pairwise(edges)
        ]
        sizes = {facts.spec.gpus for facts in self._statuses.jobs}
        points = [
            Point({name: values[place] for name, values in means.items()}, self._timers(sizes, to_s))
            for place, to_s in enumerate(edges[1:])
        ]
        walls = [self._statuses.wall_s(at_s) for at_s in edges[1:]]
        return trends_of(edges[1:], walls, edges[1] - edges[0], points, self._tiers)

    def _timers(self, sizes: set[int], at_s: float) -> dict[int, tuple[float | None, ...]]:
        record = self._statuses.decisions.timers_s(sizes, at_s)
        return {
            gpus: tuple(None if seconds == float("inf") else seconds for seconds in row)
            for gpus, row in record.items()
        }


def _gpus_up(run: Record) -> pl.DataFrame:
    """GPUs of machines that are not down."""
    topology = run.topology
    sizes = {name: int(gpus) for name, gpus in zip(topology.names[0], topology.gpus[0], strict=True)}
    rows = run.all_events.filter(pl.col("kind").is_in(["fail", "repair"]))
    step = pl.col("machine").cast(pl.String).replace_strict(sizes, return_dtype=pl.Int64)
    changes = rows.select("time_s", level=pl.when(pl.col("kind") == "fail").then(-step).otherwise(step))
    first = pl.DataFrame({"time_s": [0.0], "level": [sum(sizes.values())]})
    return pl.concat([first, changes]).with_columns(pl.col("level").cum_sum())


def _of_jobs(statuses: StatusHistory) -> dict[str, pl.DataFrame]:
    """GPUs used, and useful, and who waits, by size."""
    course = statuses.course
    steps: dict[str, tuple[list[float], list[float]]] = {}

    def step(name: str, time_s: float, by: float) -> None:
        times, levels = steps.setdefault(name, ([], []))
        times.append(time_s)
        levels.append((levels[-1] if levels else 0.0) + by)

    def add(act: int, time_s: float, sign: float) -> None:
        gpus = statuses.jobs[course.jobs[act]].spec.gpus
        if course.makes[act] == RUNS:
            step("gpus_used", time_s, sign * gpus)
            step("gpus_useful", time_s, sign * gpus / statuses.progress.slowdown(act))
        elif course.makes[act] == WAITS:
            step(f"waiting_jobs_{size_class(gpus)}", time_s, sign)
            step(f"waiting_gpus_{size_class(gpus)}", time_s, sign * gpus)

    for act, time_s in enumerate(course.times):
        before = course.before[act]
        if before != act:
            add(before, time_s, -1.0)
        add(act, time_s, 1.0)
    names = ["gpus_used", "gpus_useful"]
    names += [f"waiting_{what}_{size}" for what in ("jobs", "gpus") for size in SIZE_CLASSES]
    empty: tuple[list[float], list[float]] = ([], [])
    return {name: _frame(*steps.get(name, empty)) for name in names}


def _frame(times: list[float], levels: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"time_s": times, "level": levels}, schema={"time_s": pl.Float64, "level": pl.Float64})


def _of_slots(run: Record) -> dict[str, pl.DataFrame]:
    """What could have started, and fragmentation, as sampled; nothing of older runs."""
    if run.slots.is_empty():
        return {}
    result = {"fragmentation": fragmentation(run.slots).with_columns(pl.col("level") * 100.0)}
    for gpus in SLOT_SIZES:
        tier = int(run.topology.closest_tier(gpus))
        rows = run.slots.filter(pl.col("gpus") == gpus, pl.col("tier").cast(pl.String) == run.tiers[max(tier, 0)])
        if tier >= 0 and not rows.is_empty():
            result[f"slots_{gpus}"] = rows.select("time_s", level="slots")
    return result
