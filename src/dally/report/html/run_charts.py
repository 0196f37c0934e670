"""The charts of one run."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import polars as pl

from dally.metrics import over_time
from dally.metrics.distribution import (
    cdf_points,
    comm_by_model,
    finished,
    jct_by_size,
    mean_parts,
    size_label,
    with_size_class,
)
from dally.metrics.record import Record
from dally.report.html.charts import (
    DOTS,
    HEAT,
    LINES,
    STACK,
    STEPS,
    Axis,
    Chart,
    Series,
    category_axis,
    clock_axis,
    count_axis,
    log_span_axis,
    share_axis,
    span_axis,
)

SPANS = 240  # of time, in charts over time
SHORTEST_S = 1.0  # on logarithmic scales
MOST_LINKS = 64
JOBS_SHARE = "jobs at or below that time"


def run_charts(run: Record, end_s: float) -> list[Chart]:
    """All that have something to show, in the order of the page."""
    start_s = float(run.events["time_s"][0]) if run.events.height else 0.0
    edges_s = over_time.time_edges(start_s, end_s, SPANS)
    return [
        *([cdf_chart(run.jobs), size_chart(run.jobs), parts_chart(run.jobs)] if _any_finished(run.jobs) else []),
        *comm_charts(run.jobs),
        tiers_chart(run),
        *busy_charts(run, edges_s),
        waiting_chart(run, edges_s),
        *load_charts(run, edges_s),
        *timer_charts(run, edges_s),
    ]


def _any_finished(jobs: pl.DataFrame) -> bool:
    return not finished(jobs).is_empty()


def cdf_chart(jobs: pl.DataFrame) -> Chart:
    """Completion times and waits, one line each."""
    done = finished(jobs)
    named = {"completion time": cdf_points(done["jct_s"]), "waiting": cdf_points(done["queue_s"])}
    series = [cdf_series(name, place, points) for place, (name, points) in enumerate(named.items())]
    x = log_span_axis("time per job", SHORTEST_S, max(max(one.xs) for one in series))
    return Chart(
        "jct-cdf", "Completion time and waiting",
        "Number of finished jobs that took at most this long. Less than a second counts as one.",
        LINES, x, share_axis(JOBS_SHARE, unit="% of jobs"), series,
    )  # fmt: skip


def cdf_series(name: str, colour: int, points: list[tuple[float, float]]) -> Series:
    """A distribution as a line on a logarithmic axis."""
    xs = [max(value, SHORTEST_S) for value, _ in points]
    return (
        Series(name, colour, [xs[0], *xs], [0.0, *(share for _, share in points)])
        if xs
        else Series(name, colour, [], [])
    )


def size_chart(jobs: pl.DataFrame) -> Chart:
    """The middle half of completion times by size of the gang."""
    table = jct_by_size(jobs)
    labels = [size_label(number) for number in table["size_class"]]
    places = [float(place) for place in range(len(labels))]
    series = [
        Series(
            "median, and the middle half of jobs", 0, table["p50"].to_list(), places,
            table["p25"].to_list(), table["p75"].to_list(),
        ),
        Series("95th percentile", 1, table["p95"].to_list(), places),
    ]  # fmt: skip
    return Chart(
        "jct-by-size", "Completion time by job size",
        "Finished jobs only; the line spans the 25th to the 75th percentile.",
        DOTS, span_range_axis("job completion time", series), category_axis("job size", "GPUs", labels), series,
    )  # fmt: skip


def span_range_axis(title: str, series: list[Series]) -> Axis:
    """A logarithmic axis of seconds that holds all points and ranges."""
    values = [value for one in series for value in (*one.xs, *one.lows, *one.highs) if value > 0]
    return log_span_axis(title, max(SHORTEST_S, min(values, default=1.0) * 0.8), max(values, default=1.0) * 1.1)


def parts_chart(jobs: pl.DataFrame) -> Chart:
    """Where completion time goes, by size of the gang, as shares."""
    sized = with_size_class(finished(jobs))
    numbers = sorted(sized["size_class"].unique().to_list())
    parts = [mean_parts(sized.filter(pl.col("size_class") == number)) for number in numbers]
    labels = [size_label(number) for number in numbers]
    names = ("computing", "communication", "restarts", "waiting")
    series = [
        Series(
            name, PART_COLOURS[name],
            [one.named()[name] / one.jct_s() if one.jct_s() else 0.0 for one in parts],
            [float(place) for place in range(len(labels))],
        )
        for name in names
    ]  # fmt: skip
    return Chart(
        "time-by-size", "Where completion time goes",
        "Shares of the time from submission to finish, summed over the jobs of each size.",
        STACK, share_axis("completion time", unit="% of it"), category_axis("job size", "GPUs", labels), series,
    )  # fmt: skip


PART_COLOURS = {"computing": 2, "communication": 1, "restarts": 4, "waiting": 7}


def comm_charts(jobs: pl.DataFrame) -> list[Chart]:
    """Exposed communication by model; none without a network."""
    table = comm_by_model(jobs).sort("lost", descending=True)
    if table.is_empty() or table["lost"].max() == 0.0:
        return []
    series = [Series("lost to the network", 1, table["lost"].to_list(), [float(p) for p in range(table.height)])]
    return [
        Chart(
            "comm-by-model", "Exposed communication by model",
            "Share of the GPU time at work that computing did not hide.",
            STACK, share_axis("GPU time lost to the network", max(series[0].xs)),
            category_axis("model", "name", table["model"].to_list()), series,
        )
    ]  # fmt: skip


def tiers_chart(run: Record) -> Chart:
    """How far gangs of each size were spread, over all placements."""
    placed = run.events.filter(pl.col("kind").is_in(["start", "migrate", "resize"])).with_columns(
        pl.col("tier").cast(pl.String)
    )
    sized = with_size_class(run.jobs.select("job_id", "gpus"))
    counts = placed.join(sized, on="job_id").group_by("size_class", "tier").len()
    numbers = sorted(counts["size_class"].unique().to_list())
    result = {(number, tier): count for number, tier, count in counts.iter_rows()}
    rows = [[result.get((number, tier), 0) for tier in run.tiers] for number in numbers]
    return spread_chart(
        run.tiers, rows, category_axis("job size", "GPUs", [size_label(number) for number in numbers])
    )


def spread_chart(tiers: list[str], rows: list[list[int]], y: Axis, accents: dict[str, int] | None = None) -> Chart:
    """How far gangs were spread: a bar for each row of placements by tier."""
    series = [
        Series(
            f"within one {tier}" if place < len(tiers) - 1 else f"across the {tier}", TIER_COLOURS[place % 5],
            [row[place] / (sum(row) or 1) for row in rows], [float(bar) for bar in range(len(rows))],
        )
        for place, tier in enumerate(tiers)
    ]  # fmt: skip
    return Chart(
        "tiers", "How far gangs were spread",
        "Placements by the closest tier that holds the whole gang: first starts, restarts and migrations.",
        STACK, share_axis("placements", unit="% of them"), y, series, accents=accents or {},
    )  # fmt: skip


TIER_COLOURS = (2, 0, 1, 3, 5)


def busy_charts(run: Record, edges_s: list[float]) -> list[Chart]:
    """GPUs held, those that are free in pieces, and fragmentation, over time."""
    gpus = run.topology.total_gpus()
    held = over_time.held_gpus(run.events, run.jobs)
    sampled = over_time.fragmentation(run.slots)
    clock = clock_axis(run, edges_s[0], edges_s[-1])
    series = [levels_of("held by jobs", 0, held, edges_s, gpus)]
    if sampled.is_empty():
        return [Chart("utilization", "GPUs held", "", STEPS, clock, share_axis("GPUs", unit="% of all"), series)]
    broken = over_time.step_means(sampled["time_s"], sampled["fragmented_gpus"], edges_s)
    series.append(stepped("free, but in pieces", 1, [level / gpus for level in broken], edges_s))
    return [
        Chart(
            "utilization", "GPUs held, and free in pieces",
            "In pieces: free, but not as a whole machine of the largest kind.",
            STEPS, clock, share_axis("GPUs", unit="% of all"), series,
        ),
        Chart(
            "fragmentation", "Fragmentation", "Share of the free GPUs that are free in pieces; 0 if none is free.",
            STEPS, clock, share_axis("fragmentation", unit="% of free GPUs"),
            [levels_of("fragmentation", 1, sampled, edges_s)],
        ),
    ]  # fmt: skip


def stepped(name: str, colour: int, values: list[float], edges_s: list[float]) -> Series:
    """A series that holds each value for its span of time."""
    return Series(name, colour, edges_s, [*values, values[-1]])


def levels_of(name: str, colour: int, table: pl.DataFrame, edges_s: list[float], whole: int = 1) -> Series:
    """The `level` of a table over its `time_s`, as a share of the whole: means over each span of time."""
    means = over_time.step_means(table["time_s"], table["level"], edges_s)
    return stepped(name, colour, [level / whole for level in means], edges_s)


def waiting_chart(run: Record, edges_s: list[float]) -> Chart:
    """How many jobs wait, over time."""
    series = levels_of("waiting jobs", 0, over_time.waiting_jobs(run.events), edges_s)
    return Chart(
        "waiting", "Jobs that wait", "Mean over each span of time.", STEPS,
        clock_axis(run, edges_s[0], edges_s[-1]), count_axis("waiting jobs", max(series.ys), "jobs"),
        [series],
    )  # fmt: skip


def load_charts(run: Record, edges_s: list[float]) -> list[Chart]:
    """The load of uplinks over time, a row each; none if no link was ever used."""
    names = [list(tier) for tier in run.topology.names]
    links = over_time.uplink_names(run.tiers, names)
    edges_s = edges_s[::2]
    loads = over_time.link_loads(run.all_events, links, edges_s)
    if not any(any(row) for row in loads):
        return []
    note = "Share of time that a link is busy with the run's jobs; 0 where nothing crosses it."
    if len(links) > MOST_LINKS:
        busiest = sorted(sorted(range(len(links)), key=lambda row: -sum(loads[row]))[:MOST_LINKS])
        note += f" The {MOST_LINKS} busiest of {len(links)}."
        links, loads = [links[row] for row in busiest], [loads[row] for row in busiest]
    return [
        Chart(
            "link-load", "Load of uplinks", note, HEAT, clock_axis(run, edges_s[0], edges_s[-1]),
            category_axis("uplink", "name", [short_link(link) for link in links]), edges=edges_s,
            cells=[[round(min(load, 1.0), 2) for load in row] for row in loads],
            z=share_axis("load", unit="% of capacity"),
        )
    ]  # fmt: skip


def short_link(link: str) -> str:
    """`rack rack0` is said as `rack0`, `rack A` stays."""
    tier, _, name = link.partition(" ")
    return name if name.startswith(tier) else link


def timer_charts(run: Record, edges_s: list[float]) -> list[Chart]:
    """How long gangs wait before they take each tier above the machine, over time; none without timers."""
    offers = run.decisions.filter(pl.col("kind") == "offer")
    charts = []
    for tier in range(1, len(run.tiers)):
        series = _timers(offers, tier, edges_s)
        if not series:
            continue
        where = f"across the {run.tiers[tier]}" if tier == len(run.tiers) - 1 else f"over one {run.tiers[tier]}"
        charts.append(
            Chart(
                f"timers-{run.tiers[tier]}", f"Patience before a gang spreads {where}",
                "The policy's delay timers by gang size; sizes whose timers never differed share a line.",
                STEPS, clock_axis(run, edges_s[0], edges_s[-1]),
                span_axis("timer", max(max(one.ys) for one in series)), series,
            )
        )  # fmt: skip
    return charts


def _timers(offers: pl.DataFrame, tier: int, edges_s: list[float]) -> list[Series]:
    """One line per set of gang sizes with the same timers; not of those that take the tier at once, or never."""
    result: dict[tuple[float, ...], tuple[list[int], list[tuple[float, float]]]] = {}
    timer = offers.filter(pl.col("timers_s").list.len() >= tier).select(
        "gpus", "time_s", pl.col("timers_s").list.get(tier - 1).alias("timer_s")
    )
    for gpus in sorted(timer["gpus"].unique().to_list()):
        rows = timer.filter(pl.col("gpus") == gpus, pl.col("timer_s") > 0, pl.col("timer_s") < inf)
        steps = _thinned(list(rows.select("time_s", "timer_s").iter_rows()), edges_s)
        if steps:
            same = (steps[0][1],) if len(steps) == 1 else tuple(value for step in steps for value in step)
            result.setdefault(same, ([], steps))[0].append(gpus)
    series = []
    for place, (sizes, steps) in enumerate(result.values()):
        xs = [*(time_s for time_s, _ in steps), edges_s[-1]]
        ys = [*(timer_s for _, timer_s in steps), steps[-1][1]]
        name = ", ".join(map(str, sizes)) + (" GPU" if sizes == [1] else " GPUs")
        series.append(Series(name, place, xs, ys))
    return series


def _thinned(steps: list[tuple[float, float]], edges_s: list[float]) -> list[tuple[float, float]]:
    """Only the changes, and of those the last in each span of time."""
    changes = [step for before, step in pairwise([(0.0, -1.0), *steps]) if before[1] != step[1]]
    width_s = (edges_s[-1] - edges_s[0]) / SPANS
    last: dict[int, tuple[float, float]] = {}
    for time_s, timer_s in changes:
        last[int((time_s - edges_s[0]) / width_s)] = (time_s, timer_s)
    return list(last.values())
