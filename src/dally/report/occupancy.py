"""Who held which machines from when to when, who waited, and what was down: one row each."""

from __future__ import annotations

import polars as pl

from dally.metrics.record import Record

PLACED = ("start", "migrate")
STOPS = ("finish", "preempt", "evict", "migrate")
BEGINS_TO_WAIT = ("submit", "preempt", "evict")


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
