"""The charts of a comparison: one colour per policy, jobs of all seeds together."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dally.metrics.distribution import cdf_points, comm_by_model, finished, jct_by_size, mean_parts, size_label
from dally.metrics.over_time import (
    fragmentation,
    held_gpus,
    link_loads,
    step_means,
    time_edges,
    uplink_names,
    waiting_jobs,
)
from dally.metrics.record import Record
from dally.report.html.axes import category_axis, count_axis, log_span_axis, share_axis, span_axis, time_axis
from dally.report.html.charts import DOTS, HEAT, LINES, STACK, STEPS, Chart, Series
from dally.report.html.run_charts import (
    CLOCK,
    JOBS_SHARE,
    PART_COLOURS,
    SHORTEST_S,
    TIER_COLOURS,
    cdf_series,
    over_time,
    span_range_axis,
)

SPANS = 160


class Contender:
    """A policy of the comparison: its colour, its runs (one per seed) and the jobs of all of them."""

    def __init__(self, label: str, colour: int, runs: Sequence[Record]) -> None:
        self.label = label
        self.colour = colour
        self.runs = runs
        self.jobs = pl.concat(
            [run.jobs.with_columns(pl.lit(place).alias("seed")) for place, run in enumerate(runs)],
            how="vertical_relaxed",
        )


def comparison_charts(contenders: Sequence[Contender]) -> list[Chart]:
    """All that have something to show, in the order of the page."""
    done = [one for one in contenders if not finished(one.jobs).is_empty()]
    charts = []
    if done:
        charts = [
            parts_chart(done),
            size_chart(done),
            cdf_chart("jct-cdf", "Completion time", "jct_s", "job completion time", done),
            cdf_chart("queue-cdf", "Waiting", "queue_s", "time without GPUs", done),
        ]
    charts += [*comm_charts(contenders), tiers_chart(contenders)]
    return charts + charts_over_time(contenders)


def parts_chart(contenders: Sequence[Contender]) -> Chart:
    """Where the mean completion time goes, one bar per policy."""
    parts = [mean_parts(one.jobs) for one in contenders]
    places = [float(place) for place in range(len(parts))]
    series = [
        Series(name, PART_COLOURS[name], [one.named()[name] for one in parts], places)
        for name in ("computing", "communication", "restarts", "waiting")
    ]
    return Chart(
        "jct-parts", "Where the mean completion time goes",
        "Mean over finished jobs. Restarts include undone work.",
        STACK, span_axis("mean job completion time", max(one.jct_s() for one in parts)),
        category_axis("policy", "name", [one.label for one in contenders]), series,
    )  # fmt: skip


def cdf_chart(name: str, title: str, column: str, axis: str, contenders: Sequence[Contender]) -> Chart:
    """The distribution of a column of jobs.csv, one line per policy."""
    series = [cdf_series(one.label, one.colour, cdf_points(finished(one.jobs)[column], 150)) for one in contenders]
    lows = [min(one.xs) for one in series]
    low_s = max(SHORTEST_S, min(lows) * 0.9)
    return Chart(
        name, title, "How many of the finished jobs took at most so long. Less than a second counts as one.",
        LINES, log_span_axis(axis, low_s, max(max(one.xs) for one in series)),
        share_axis(JOBS_SHARE, unit="% of jobs"), series,
    )  # fmt: skip


def size_chart(contenders: Sequence[Contender]) -> Chart:
    """Median completion time by size of the gang, one dot per policy."""
    tables = {one.label: jct_by_size(one.jobs) for one in contenders}
    numbers = sorted({number for table in tables.values() for number in table["size_class"]})
    series = [
        Series(
            one.label, one.colour, tables[one.label]["p50"].to_list(),
            [float(numbers.index(number)) for number in tables[one.label]["size_class"]],
        )
        for one in contenders
    ]  # fmt: skip
    return Chart(
        "jct-by-size", "Completion time by job size", "Median over the finished jobs of each size.", DOTS,
        span_range_axis("median job completion time", series),
        category_axis("job size", "GPUs", [size_label(number) for number in numbers]), series,
    )  # fmt: skip


def comm_charts(contenders: Sequence[Contender]) -> list[Chart]:
    """Exposed communication by model, one dot per policy; none without a network."""
    tables = {one.label: comm_by_model(one.jobs) for one in contenders}
    largest = max((table["lost"].max() or 0.0 for table in tables.values()), default=0.0)
    if not largest:
        return []
    worst: dict[str, float] = {}
    for table in tables.values():
        for model, lost in table.select("model", "lost").iter_rows():
            worst[model] = max(worst.get(model, 0.0), lost)
    models = sorted(worst, key=lambda model: (-worst[model], model))
    series = [
        Series(
            one.label, one.colour, tables[one.label]["lost"].to_list(),
            [float(models.index(model)) for model in tables[one.label]["model"]],
        )
        for one in contenders
    ]  # fmt: skip
    return [
        Chart(
            "comm-by-model", "Exposed communication by model",
            "Share of the GPU time at work that computing did not hide.", DOTS,
            share_axis("GPU time lost to the network", float(largest)),  # type: ignore[arg-type]
            category_axis("model", "name", models), series,
        )
    ]  # fmt: skip


def tiers_chart(contenders: Sequence[Contender]) -> Chart:
    """How far gangs were spread, one bar per policy."""
    tiers = contenders[0].runs[0].tiers
    counts = [
        [sum(run.summary["tier_starts"].get(tier, 0) for run in one.runs) for tier in tiers] for one in contenders
    ]
    places = [float(place) for place in range(len(contenders))]
    series = [
        Series(
            f"within one {tier}" if place < len(tiers) - 1 else f"across the {tier}", TIER_COLOURS[place % 5],
            [row[place] / (sum(row) or 1) for row in counts], places,
        )
        for place, tier in enumerate(tiers)
    ]  # fmt: skip
    return Chart(
        "tiers", "How far gangs were spread",
        "Placements by the closest tier that holds the whole gang: first starts, restarts and migrations.",
        STACK, share_axis("placements", unit="% of them"),
        category_axis("policy", "name", [one.label for one in contenders]), series,
    )  # fmt: skip


def charts_over_time(contenders: Sequence[Contender]) -> list[Chart]:
    """The first seed's runs over time: GPUs held, fragmentation, the queue, load of uplinks."""
    firsts = [(one, one.runs[0]) for one in contenders if not one.runs[0].events.is_empty()]
    if not firsts:
        return []
    ends = [float(run.all_events["time_s"].max() or 0.0) for _, run in firsts]  # type: ignore[arg-type]
    start_s = min(float(run.events["time_s"][0]) for _, run in firsts)
    edges_s = time_edges(start_s, max(ends), SPANS)
    clock = time_axis(CLOCK, edges_s[0], edges_s[-1])
    gpus = firsts[0][1].topology.total_gpus()
    held, broken, waits = [], [], []
    for one, run in firsts:
        level = held_gpus(run.events, run.jobs)
        shares = [value / gpus for value in step_means(level["time_s"], level["level"], edges_s)]
        held.append(over_time(one.label, one.colour, shares, edges_s))
        sampled = fragmentation(run.slots)
        broken.append(
            over_time(one.label, one.colour, step_means(sampled["time_s"], sampled["level"], edges_s), edges_s)
        )
        level = waiting_jobs(run.events)
        waits.append(
            over_time(one.label, one.colour, step_means(level["time_s"], level["level"], edges_s), edges_s)
        )
    first = " First seed." if any(len(one.runs) > 1 for one in contenders) else ""
    most = max(max(one.ys) for one in waits)
    return [
        Chart("utilization", "GPUs held", "Mean over each span of time." + first, STEPS, clock,
              share_axis("GPUs held", unit="% of all"), held),
        Chart("waiting", "Jobs that wait", "Mean over each span of time." + first, STEPS, clock,
              count_axis("waiting jobs", most, "jobs"), waits),
        Chart("fragmentation", "Fragmentation", "Share of the free GPUs that are free in pieces." + first, STEPS,
              clock, share_axis("fragmentation", unit="% of free GPUs"), broken),
        *_load_charts(firsts, edges_s, first),
    ]  # fmt: skip


def _load_charts(firsts: Sequence[tuple[Contender, Record]], edges_s: list[float], first: str) -> list[Chart]:
    """The mean load of all uplinks over time, one row per policy."""
    rows = []
    for _, run in firsts:
        links = uplink_names(run.tiers, [list(tier) for tier in run.topology.names])
        loads = link_loads(run.all_events, links, edges_s)
        rows.append([sum(cells) / len(links) for cells in zip(*loads, strict=True)])
    if not any(any(row) for row in rows):
        return []
    largest = max(max(row) for row in rows)
    return [
        Chart(
            "link-load", "Load of uplinks",
            f"Mean over all of them, by policy; each run's own report has them one by one.{first}",
            HEAT, time_axis(CLOCK, edges_s[0], edges_s[-1]),
            category_axis("policy", "name", [one.label for one, _ in firsts]),
            edges=edges_s, cells=[[round(load, 3) for load in row] for row in rows],
            z=share_axis("load", max(largest, 0.01), unit="% of capacity"),
        )
    ]  # fmt: skip
