"""How a run went over time: step functions of the event log, and who held which machines from when to when."""

from __future__ import annotations

from math import ulp

import polars as pl

from dally.metrics.record import Record

ALLOCATES = ("start",)
RESIZES = "resize"  # it holds another number of GPUs from then on
RELEASES = ("finish", "preempt", "evict")
BEGINS_TO_WAIT = ("submit", "preempt", "evict")


def time_edges(start_s: float, end_s: float, spans: int) -> list[float]:
    """The borders of that many equal spans of time, each long enough for floats to tell its ends apart."""
    end_s = max(end_s, start_s + max(1e-9, 4 * spans * ulp(start_s)))
    width_s = (end_s - start_s) / spans
    return [start_s + place * width_s for place in range(spans)] + [end_s]


def step_means(times_s: pl.Series, values: pl.Series, edges_s: list[float]) -> list[float]:
    """The mean in each span of a function that takes each value at its time and keeps it until the next.

    Before the first time it is 0. Times ascend.
    """
    if times_s.is_empty():
        return [0.0] * (len(edges_s) - 1)
    times = times_s.cast(pl.Float64)
    levels = values.cast(pl.Float64)
    lasted = times.diff().fill_null(0.0)
    area = (levels.shift(1).fill_null(0.0) * lasted).cum_sum()  # up to each time
    edges = pl.Series(edges_s, dtype=pl.Float64)
    last = times.search_sorted(edges, side="right").cast(pl.Int64) - 1
    known = last.clip(0)
    reached = area.gather(known) + levels.gather(known) * (edges - times.gather(known))
    reached = reached.set(last < 0, 0.0)
    width_s = edges.diff().slice(1)
    return (reached.diff().slice(1) / width_s).to_list()


def held_gpus(events: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """`time_s` and `level`: GPUs that jobs hold from then on."""
    resized = events.filter(pl.col("kind") == RESIZES)["job_id"].unique()
    rows = events.filter(pl.col("kind").is_in([*ALLOCATES, *RELEASES, RESIZES])).join(
        jobs.select("job_id", "gpus"), on="job_id", how="left", maintain_order="left"
    )
    allocates = pl.col("kind").is_in([*ALLOCATES, RESIZES])
    if resized.is_empty():
        return _level(rows, pl.col("gpus") * pl.when(allocates).then(1).otherwise(-1))
    rows = rows.with_columns(held=pl.when(allocates).then(pl.col("machine_gpus").list.sum()).otherwise(0))
    return _level(rows, pl.col("held").cast(int) - pl.col("held").cast(int).shift(1).over("job_id").fill_null(0))


def waiting_jobs(events: pl.DataFrame) -> pl.DataFrame:
    """`time_s` and `level`: jobs that wait from then on."""
    rows = events.filter(pl.col("kind").is_in([*ALLOCATES, *BEGINS_TO_WAIT]))
    return _level(rows, pl.when(pl.col("kind").is_in(ALLOCATES)).then(-1).otherwise(1))


def _level(rows: pl.DataFrame, step: pl.Expr) -> pl.DataFrame:
    return rows.select("time_s", step.cast(int).cum_sum().alias("level"))


def fragmentation(slots: pl.DataFrame) -> pl.DataFrame:
    """`time_s`, `level`: the sampled fragmentation, and `fragmented_gpus`: how many GPUs that is."""
    samples = slots.unique(subset="time_s", keep="first", maintain_order=True)
    fragmented = (pl.col("fragmentation") * pl.col("free_gpus")).alias("fragmented_gpus")
    return samples.select("time_s", pl.col("fragmentation").alias("level"), fragmented)


def link_loads(events: pl.DataFrame, links: list[str], edges_s: list[float]) -> list[list[float]]:
    """The mean load of each link in each span of time."""
    rows = events.filter(pl.col("kind") == "link", pl.col("link").is_in(links)).select("time_s", "link", "load")
    by_link = {str(name[0]): part for name, part in rows.partition_by("link", as_dict=True).items()}
    nothing = rows.clear()
    return [
        step_means(part["time_s"], part["load"], edges_s) for part in (by_link.get(link, nothing) for link in links)
    ]


def uplink_names(tiers: list[str], names: list[list[str]]) -> list[str]:
    """The links into the network as the log names them: of every tier above the machine, else the machines'."""
    chosen = range(1, len(tiers) - 1) if len(tiers) > 2 else range(1)
    return [f"{tiers[tier]} {name}" for tier in reversed(chosen) for name in names[tier]]


PLACED = ("start", "migrate", "resize")
STOPS = ("finish", "preempt", "evict", "migrate", "resize")


def occupancies(run: Record, end_s: float) -> pl.DataFrame:
    """A row per gang and machine: numbers of `job`, `tier` and `machine`, `from_s`, `to_s`, `gpus`."""
    numbers = {name: number for number, name in enumerate(run.topology.names[0])}
    tiers = {name: number for number, name in enumerate(run.tiers)}
    rows = (
        _numbered(run)
        .filter(pl.col("kind").is_in([*PLACED, *STOPS]))
        .with_columns(pl.col("time_s").shift(-1).over("job").alias("to_s"))
    )
    return (
        rows.filter(pl.col("kind").is_in(PLACED))
        .select(
            "job",
            pl.col("time_s").alias("from_s"),
            pl.col("to_s").fill_null(end_s),
            pl.col("tier").cast(pl.String).replace_strict(tiers, return_dtype=pl.UInt32),
            pl.col("machines").list.eval(pl.element().cast(pl.String)),
            pl.col("machine_gpus").alias("gpus"),
        )
        .explode("machines", "gpus")
        .with_columns(pl.col("machines").replace_strict(numbers, return_dtype=pl.UInt32).alias("machine"))
        .sort("from_s", maintain_order=True)
    )


def waits(run: Record, end_s: float) -> pl.DataFrame:
    """`job`, `from_s`, `to_s`: a row per wait that took any time."""
    rows = (
        _numbered(run)
        .filter(pl.col("kind").is_in([*BEGINS_TO_WAIT, "start"]))
        .with_columns(pl.col("time_s").shift(-1).over("job").alias("to_s"))
    )
    return (
        rows.filter(pl.col("kind").is_in(BEGINS_TO_WAIT))
        .select("job", pl.col("time_s").alias("from_s"), pl.col("to_s").fill_null(end_s))
        .filter(pl.col("to_s") > pl.col("from_s"))
        .sort("from_s", maintain_order=True)
    )


def outages(run: Record, end_s: float) -> pl.DataFrame:
    """`machine`, `from_s`, `to_s`: a row for each time that one was down."""
    numbers = {name: number for number, name in enumerate(run.topology.names[0])}
    return (
        run.all_events.filter(pl.col("kind").is_in(["fail", "repair"]))
        .with_columns(pl.col("machine").cast(pl.String).replace_strict(numbers, return_dtype=pl.UInt32))
        .with_columns(pl.col("time_s").shift(-1).over("machine").alias("to_s"))
        .filter(pl.col("kind") == "fail")
        .select("machine", pl.col("time_s").alias("from_s"), pl.col("to_s").fill_null(end_s))
    )


def _numbered(run: Record) -> pl.DataFrame:
    """The events of jobs, with the number of each."""
    index = run.jobs.select("job_id").with_row_index("job")
    return run.events.join(index, on="job_id", how="left", maintain_order="left")
