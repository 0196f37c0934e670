"""How a run went over time: step functions of the event log, averaged over equal spans of time."""

from __future__ import annotations

from math import ulp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

TAKES = ("start",)
GIVES_BACK = ("finish", "preempt", "evict")
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
    import polars as pl

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
    import polars as pl

    rows = events.filter(pl.col("kind").is_in([*TAKES, *GIVES_BACK])).join(
        jobs.select("job_id", "gpus"), on="job_id", how="left", maintain_order="left"
    )
    return _level(rows, pl.col("gpus") * pl.when(pl.col("kind").is_in(TAKES)).then(1).otherwise(-1))


def waiting_jobs(events: pl.DataFrame) -> pl.DataFrame:
    """`time_s` and `level`: jobs that wait from then on."""
    import polars as pl

    rows = events.filter(pl.col("kind").is_in([*TAKES, *BEGINS_TO_WAIT]))
    return _level(rows, pl.when(pl.col("kind").is_in(TAKES)).then(-1).otherwise(1))


def waiting_gpus(events: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """`time_s` and `level`: GPUs that waiting jobs ask for from then on."""
    import polars as pl

    rows = events.filter(pl.col("kind").is_in([*TAKES, *BEGINS_TO_WAIT])).join(
        jobs.select("job_id", "gpus"), on="job_id", how="left", maintain_order="left"
    )
    return _level(rows, pl.col("gpus") * pl.when(pl.col("kind").is_in(TAKES)).then(-1).otherwise(1))


def _level(rows: pl.DataFrame, step: pl.Expr) -> pl.DataFrame:
    return rows.select("time_s", step.cast(int).cum_sum().alias("level"))


def fragmentation(slots: pl.DataFrame) -> pl.DataFrame:
    """`time_s`, `level`: the sampled fragmentation, and `fragmented_gpus`: how many GPUs that is."""
    import polars as pl

    samples = slots.unique(subset="time_s", keep="first", maintain_order=True)
    fragmented = (pl.col("fragmentation") * pl.col("free_gpus")).alias("fragmented_gpus")
    return samples.select("time_s", pl.col("fragmentation").alias("level"), fragmented)


def link_loads(events: pl.DataFrame, links: list[str], edges_s: list[float]) -> list[list[float]]:
    """The mean load of each link in each span of time."""
    import polars as pl

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
