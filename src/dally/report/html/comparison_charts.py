"""The charts of a comparison: the subject and the baseline in colour, the rest grey, jobs of all seeds together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from dally.metrics import over_time
from dally.metrics.distribution import cdf_points, comm_by_model, finished, jct_by_size, mean_parts, size_label
from dally.metrics.metric_list import Spread, spread
from dally.metrics.record import Record
from dally.report.html.charts import (
    DOTS,
    HEAT,
    LINES,
    STACK,
    STEPS,
    Chart,
    Series,
    Total,
    category_axis,
    clock_axis,
    count_axis,
    fitted_high,
    log_span_axis,
    share_axis,
    span_axis,
)
from dally.report.html.run_charts import (
    JOBS_SHARE,
    PART_COLOURS,
    SHORTEST_S,
    cdf_series,
    levels_of,
    span_range_axis,
    spread_chart,
)

SPANS = 160
SUBJECT, BASELINE, GREY = 0, 1, 7  # colours of who the page is about, of who it is compared with, and of the rest


class Contender:
    """A policy of the comparison: its colour, its runs (one per seed) and the jobs of all of them."""

    def __init__(self, label: str, colour: int, runs: Sequence[Record], jct_s: Spread | None = None) -> None:
        self.label = label
        self.colour = colour
        self.runs = runs
        self.jct_s = jct_s  # its mean completion time over all runs, replications included
        self.jobs = pl.concat(
            [run.jobs.with_columns(pl.lit(place).alias("seed")) for place, run in enumerate(runs)],
            how="vertical_relaxed",
        )

    def accented(self) -> bool:
        """Whether it is one that the page is about."""
        return self.colour != GREY


def comparison_charts(contenders: Sequence[Contender]) -> list[Chart]:
    """All that have something to show, in the order of the page."""
    done = [one for one in contenders if not finished(one.jobs).is_empty()]
    charts = []
    if done:
        charts = [
            mean_chart(done),
            parts_chart(done),
            cdf_chart("jct-cdf", "Completion time", "jct_s", "job completion time", done),
            cdf_chart("queue-cdf", "Waiting", "queue_s", "time without GPUs", done),
            size_chart(done),
        ]
    charts += [*comm_charts(contenders), tiers_chart(contenders)]
    return charts + charts_over_time(contenders)


def accents(contenders: Sequence[Contender]) -> dict[str, int]:
    """The colours of those that the page is about, for their labels."""
    return {one.label: one.colour for one in contenders if one.accented()}


def mean_chart(contenders: Sequence[Contender]) -> Chart:
    """The mean completion time, a bar per policy, with its range over runs."""
    totals = _totals(contenders)
    series = [Series(one.label, one.colour, [totals[place].value], [float(place)])
              for place, one in enumerate(contenders) if one.accented()]  # fmt: skip
    rest = [total for total, one in zip(totals, contenders, strict=True) if not one.accented()]
    if rest:
        series.append(Series("the others", GREY, [one.value for one in rest], [one.row for one in rest]))
    return Chart(
        "jct-mean", "Mean completion time", f"Best first.{_whiskers(contenders)}", STACK,
        span_axis("mean job completion time", _fitted(totals)),
        category_axis("policy", "name", [one.label for one in contenders]),
        series, totals=totals, accents=accents(contenders),
    )  # fmt: skip


def _totals(contenders: Sequence[Contender]) -> list[Total]:
    """The mean completion time of each, with its range."""
    result = []
    for place, one in enumerate(contenders):
        mean_s = mean_parts(one.jobs).jct_s()
        known = one.jct_s or Spread(mean_s, mean_s, mean_s)
        result.append(Total(float(place), mean_s, known.low, known.high))
    return result


def _fitted(totals: Sequence[Total]) -> float:
    """The largest that the axis shows: whiskers of what is not cut off stay whole."""
    shown = fitted_high([one.value for one in totals])
    return max(max(one.value, one.high) for one in totals if one.value <= shown)


def _whiskers(contenders: Sequence[Contender]) -> str:
    """How to read them, where there are any."""
    several = any(len(one.runs) > 1 for one in contenders)
    return " Whiskers: the least and the most over seeds and replications." if several else ""


def parts_chart(contenders: Sequence[Contender]) -> Chart:
    """Where the mean completion time goes, one bar per policy."""
    parts = [mean_parts(one.jobs) for one in contenders]
    places = [float(place) for place in range(len(parts))]
    series = [
        Series(name, PART_COLOURS[name], [one.named()[name] for one in parts], places)
        for name in ("computing", "communication", "restarts", "waiting")
    ]
    totals = _totals(contenders)
    return Chart(
        "jct-parts", "Where the mean completion time goes",
        f"Mean over finished jobs. Restarts include undone work.{_whiskers(contenders)}",
        STACK, span_axis("mean job completion time", _fitted(totals)),
        category_axis("policy", "name", [one.label for one in contenders]), series,
        totals=totals, accents=accents(contenders),
    )  # fmt: skip


def cdf_chart(name: str, title: str, column: str, axis: str, contenders: Sequence[Contender]) -> Chart:
    """The distribution of a column of jobs.csv, one line per policy."""
    series = [cdf_series(one.label, one.colour, cdf_points(finished(one.jobs)[column], 150)) for one in contenders]
    lows = [min(one.xs) for one in series]
    low_s = max(SHORTEST_S, min(lows) * 0.9)
    return Chart(
        name, title, "Number of finished jobs that took at most this long. Less than a second counts as one.",
        LINES, log_span_axis(axis, low_s, max(max(one.xs) for one in series)),
        share_axis(JOBS_SHARE, unit="% of jobs"), series,
    )  # fmt: skip


def size_chart(contenders: Sequence[Contender]) -> Chart:
    """Median completion time by size of the gang, one dot per policy, with its range over seeds."""
    tables = [jct_by_size(one.jobs) for one in contenders]
    numbers = sorted({number for table in tables for number in table["size_class"]})
    pairs = zip(contenders, tables, strict=True)
    series = [_dots(one, table, jct_by_size, "size_class", "p50", numbers) for one, table in pairs]
    return Chart(
        "jct-by-size", "Completion time by job size",
        f"Median over the finished jobs of each size.{_ranged(contenders)}", DOTS,
        span_range_axis("median job completion time", series),
        category_axis("job size", "GPUs", [size_label(number) for number in numbers]), series,
    )  # fmt: skip


def _dots(
    one: Contender,
    table: pl.DataFrame,
    table_of: Callable[[pl.DataFrame], pl.DataFrame],
    key: str,
    value: str,
    order: list[Any],
) -> Series:
    """A policy's values by a key, each at the key's place of the order, with their ranges over seeds."""
    by_seed = [dict(table_of(run.jobs).select(key, value).iter_rows()) for run in one.runs]
    lows, highs = _ranges(by_seed, table[key].to_list())
    places = [float(order.index(name)) for name in table[key]]
    return Series(one.label, one.colour, table[value].to_list(), places, lows, highs)


def _ranges(by_seed: Sequence[dict[Any, float]], keys: Sequence[Any]) -> tuple[list[float], list[float]]:
    """The least and the most of each key over seeds; nothing where there is one seed."""
    if len(by_seed) < 2:
        return [], []
    result = [spread(values.get(key) for values in by_seed) for key in keys]
    return [one.low for one in result if one], [one.high for one in result if one]


def _ranged(contenders: Sequence[Contender]) -> str:
    """How to read the lines behind dots, where there are any."""
    return " Lines: the least and the most over seeds." if any(len(one.runs) > 1 for one in contenders) else ""


def comm_charts(contenders: Sequence[Contender]) -> list[Chart]:
    """Exposed communication by model, one dot per policy; none without a network."""
    tables = [comm_by_model(one.jobs) for one in contenders]
    largest = max((table["lost"].max() or 0.0 for table in tables), default=0.0)
    if not largest:
        return []
    worst: dict[str, float] = {}
    for table in tables:
        for model, lost in table.select("model", "lost").iter_rows():
            worst[model] = max(worst.get(model, 0.0), lost)
    models = sorted(worst, key=lambda model: (-worst[model], model))
    pairs = zip(contenders, tables, strict=True)
    series = [_dots(one, table, comm_by_model, "model", "lost", models) for one, table in pairs]
    largest = max(value for one in series for value in (*one.xs, *one.highs))
    return [
        Chart(
            "comm-by-model", "Exposed communication by model",
            f"Share of the GPU time at work that computing did not hide.{_ranged(contenders)}", DOTS,
            share_axis("GPU time lost to the network", largest),
            category_axis("model", "name", models), series,
        )
    ]  # fmt: skip


def tiers_chart(contenders: Sequence[Contender]) -> Chart:
    """How far gangs were spread, one bar per policy."""
    tiers = contenders[0].runs[0].tiers
    counts = [
        [sum(run.summary["tier_starts"].get(tier, 0) for run in one.runs) for tier in tiers] for one in contenders
    ]
    return spread_chart(
        tiers, counts, category_axis("policy", "name", [one.label for one in contenders]), accents(contenders)
    )


def charts_over_time(contenders: Sequence[Contender]) -> list[Chart]:
    """The first seed's runs over time: GPUs held, fragmentation, the queue, load of uplinks."""
    firsts = [(one, one.runs[0]) for one in contenders if not one.runs[0].events.is_empty()]
    if not firsts:
        return []
    ends = [float(run.all_events["time_s"].max() or 0.0) for _, run in firsts]  # type: ignore[arg-type]
    start_s = min(float(run.events["time_s"][0]) for _, run in firsts)
    edges_s = over_time.time_edges(start_s, max(ends), SPANS)
    clock = clock_axis(firsts[0][1], edges_s[0], edges_s[-1])
    gpus = firsts[0][1].topology.total_gpus()
    held, broken, waits = [], [], []
    for one, run in firsts:
        label, colour = one.label, one.colour
        held.append(levels_of(label, colour, over_time.held_gpus(run.events, run.jobs), edges_s, gpus))
        broken.append(levels_of(label, colour, over_time.fragmentation(run.slots), edges_s))
        waits.append(levels_of(label, colour, over_time.waiting_jobs(run.events), edges_s))
    first = " First seed." if any(len(one.runs) > 1 for one in contenders) else ""
    most = fitted_high([max(one.ys) for one in waits])
    cut = [f"{one.name} goes up to {max(one.ys):,.0f}" for one in waits if max(one.ys) > most]
    return [
        Chart("utilization", "GPUs held", "Mean over each span of time." + first, STEPS, clock,
              share_axis("GPUs held", unit="% of all"), held),
        Chart("waiting", "Jobs that wait", f"Mean over each span of time.{first}{_cut_off(cut)}", STEPS, clock,
              count_axis("waiting jobs", most, "jobs"), waits),
        Chart("fragmentation", "Fragmentation", "Share of the free GPUs that are free in pieces." + first, STEPS,
              clock, share_axis("fragmentation", unit="% of free GPUs"), broken),
        *_load_charts(firsts, edges_s, first),
    ]  # fmt: skip


def _cut_off(lines: Sequence[str]) -> str:
    """What an axis does not show, in words."""
    return f" Cut off: {', '.join(lines)}." if lines else ""


def _load_charts(firsts: Sequence[tuple[Contender, Record]], edges_s: list[float], first: str) -> list[Chart]:
    """The mean load of all uplinks over time, one row per policy."""
    rows = []
    for _, run in firsts:
        links = over_time.uplink_names(run.tiers, [list(tier) for tier in run.topology.names])
        loads = over_time.link_loads(run.all_events, links, edges_s)
        rows.append([sum(cells) / len(links) for cells in zip(*loads, strict=True)])
    if not any(any(row) for row in rows):
        return []
    largest = max(max(row) for row in rows)
    return [
        Chart(
            "link-load", "Load of uplinks",
            f"Mean over all of them, by policy; each run's own report has them one by one.{first}",
            HEAT, clock_axis(firsts[0][1], edges_s[0], edges_s[-1]),
            category_axis("policy", "name", [one.label for one, _ in firsts]),
            edges=edges_s, cells=[[round(load, 3) for load in row] for row in rows],
            z=share_axis("load", max(largest, 0.01), unit="% of capacity"),
            accents=accents([one for one, _ in firsts]),
        )
    ]  # fmt: skip
