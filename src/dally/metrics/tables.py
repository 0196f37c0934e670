"""A run as tables: jobs, events, decisions, slots, shares, reclaims and stalls.parquet."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import IO, TYPE_CHECKING

from dally.metrics.jobs_csv import SHARED, USER, jobs_csv
from dally.model import (
    ACCEPT,
    DECISION_NAMES,
    KIND_NAMES,
    OFFER,
    RANK,
    RESERVE,
    ROUND,
    WAITS,
)

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from typing_extensions import Buffer

    from dally.metrics.simulated import Simulated

SHARES = {
    "time_s": float, "queue": str, "gpu_type": str, "held": int, "asked": int, "due": float, "guaranteed": float,
    "used_gpu_s": float,
}  # fmt: skip
RECLAIMS = {
    "time_s": float, "loser": str, "winner": str, "loser_queue": str, "winner_queue": str, "gpus": int,
    "ran_s": float, "held": int, "due": float,
}  # fmt: skip
STALLS = {
    "time_s": float, "queue": str, "gpu_type": str, "cause": str, "of": str, "most": float, "held": int,
}  # fmt: skip
QUEUE_TABLES = {"shares": SHARES, "reclaims": RECLAIMS, "stalls": STALLS}
# Columns of the other tables.
COLUMNS = {
    "events": ("time_s", "kind", "job_id", "machine", "tier", "machines", "machine_gpus", "link", "load"),
    "decisions": (
        "time_s", "kind", "job_id", "gpus", "group", "tier", "demand_kind", "rank", "tie", "patience_s", "until_s",
        "winner", "timers_s", "prices",
    ),
    "slots": ("time_s", "free_gpus", "fragmentation", "gpus", "tier", "slots"),
    **{name: tuple(columns) for name, columns in QUEUE_TABLES.items()},
}  # fmt: skip
SECONDS = ("submit_s", "start_s", "finish_s", "jct_s", "queue_s", "run_s", "compute_s", "comm_s", "slowdown")


def jobs_frame(record: Simulated) -> pl.DataFrame:
    """jobs.csv as a table."""
    return read_jobs(io.BytesIO("".join(jobs_csv(record)).encode()))


def read_jobs(source: Path | IO[bytes]) -> pl.DataFrame:
    """The table that the text of jobs.csv holds."""
    import polars as pl

    texts = ("job_id", "model", "tier", USER, *SHARED)
    return pl.read_csv(
        source, schema_overrides={**dict.fromkeys(texts, pl.String), **dict.fromkeys(SECONDS, pl.Float64)}
    )


def events_frame(record: Simulated) -> pl.DataFrame:
    """The event log, one row per event; `machines` and `machine_gpus` say where a gang was placed."""
    import polars as pl

    log = record.log
    topology = record.topology
    ends = pl.Series(memoryview(log.part_ends))
    counts = ends.diff().fill_null(ends.head(1))
    rows = pl.Series(range(len(log)), dtype=pl.UInt32)
    placed = (
        pl.DataFrame(
            {
                "row": _repeated(rows, counts),
                "machines": _named(topology.names[0], log.part_machines),
                "machine_gpus": pl.Series(memoryview(log.part_gpus)),
            }
        )
        .group_by("row", maintain_order=True)
        .all()
    )
    events = pl.DataFrame(
        {
            "row": rows,
            "time_s": pl.Series(memoryview(log.times)),
            "kind": _named(list(KIND_NAMES), log.kinds),
            "job_id": _named([job.job_id for job in record.outcomes], log.jobs, pl.String()),
            "machine": _named(topology.names[0], log.machines),
            "tier": _named(topology.tiers, log.tiers),
        }
    )
    whole = events.join(placed, on="row", how="left", maintain_order="left").drop("row")
    if len(log.link_times) == 0:
        return whole.with_columns(link=pl.lit(None, pl.String), load=pl.lit(None, pl.Float64))
    return pl.concat([whole, _loads(record)], how="diagonal").sort("time_s", maintain_order=True)


def decisions_frame(record: Simulated) -> pl.DataFrame:
    """The policy's reasons: who began to wait at which rank, what was offered to whom, accepted, lost, kept."""
    import polars as pl

    log = record.log.decisions
    jobs = [job.job_id for job in record.outcomes]
    kind = pl.Series(memoryview(log.kinds), dtype=pl.UInt8)
    value = pl.Series(memoryview(log.values), dtype=pl.Float64)
    ranked = (kind == WAITS) | (kind == RANK)
    numbers = _runs(log.timer_ends, log.timers_s)
    frame = pl.DataFrame(
        {
            "time_s": pl.Series(memoryview(log.times), dtype=pl.Float64),
            "kind": _named(list(DECISION_NAMES), log.kinds),
            "job_id": _named(jobs, log.jobs, pl.String()),
            "gpus": pl.Series(memoryview(log.gpus), dtype=pl.Int32),
            "group": pl.Series(memoryview(log.groups), dtype=pl.Int32),
            "tier": _named(record.tiers, log.tiers, pl.String()),
            "demand_kind": pl.Series(memoryview(log.demand_kinds), dtype=pl.Int32),
            "rank": value.set(~ranked, None),
            "tie": pl.Series(memoryview(log.ties), dtype=pl.Float64).set(~ranked, None),
            "patience_s": value.set(kind != ACCEPT, None),
            "until_s": value.set((kind != RESERVE) & (kind != ROUND), None),
            "winner": _named(jobs, log.others, pl.String()),
            "timers_s": numbers,
            "prices": numbers,
        }
    )
    none = pl.lit([], dtype=pl.List(pl.Float64))
    offers = pl.col("kind") == DECISION_NAMES[OFFER]
    return frame.with_columns(
        timers_s=pl.when(offers).then("timers_s").otherwise(none),
        prices=pl.when(offers).then(none).otherwise("prices"),
    )


def _runs(ends: Buffer, values: Buffer) -> pl.Series:
    """The values of each row as a list; `ends` says where a row's values end. Most rows have none."""
    import polars as pl

    stops = pl.Series(memoryview(ends), dtype=pl.Int32)
    known = pl.Series(memoryview(values), dtype=pl.Float64)
    nothing = pl.Series([[]], dtype=pl.List(pl.Float64))
    if known.is_empty():
        return nothing.new_from_index(0, len(stops))
    counts = stops.diff().fill_null(stops.head(1))
    rows = pl.int_range(len(stops), eager=True)
    lists = (
        pl.DataFrame({"row": _repeated(rows, counts), "values": known}).group_by("row", maintain_order=True).all()
    )
    whole = pl.DataFrame({"row": rows}).join(lists, on="row", how="left", maintain_order="left")
    return whole.select(pl.col("values").fill_null(pl.lit([], dtype=pl.List(pl.Float64))))["values"]


def _repeated(rows: pl.Series, counts: pl.Series) -> pl.Series:
    """Each row as often as its count says."""
    import polars as pl

    often = pl.DataFrame({"row": rows, "times": counts}).filter(pl.col("times") > 0)
    return often.select(pl.col("row").repeat_by("times").explode()).to_series()


def _loads(record: Simulated) -> pl.DataFrame:
    """Rows of kind link: the share of time from then on that a link is busy with our jobs."""
    import polars as pl

    log = record.log
    used = sorted({int(link) for link in log.link_numbers})
    names = {link: record.speed.link_name(link) for link in used}
    return pl.DataFrame(
        {
            "time_s": pl.Series(memoryview(log.link_times), dtype=pl.Float64),
            "kind": pl.Series(["link"] * len(log.link_times), dtype=pl.Enum(KIND_NAMES)),
            "link": pl.Series([names[int(link)] for link in log.link_numbers], dtype=pl.String),
            "load": pl.Series(memoryview(log.link_loads), dtype=pl.Float64),
        }
    )


def _named(names: list[str], numbers: Buffer, kind: pl.DataType | None = None) -> pl.Series:
    """The name behind each number, null for -1; as an enumeration unless told otherwise."""
    import polars as pl

    column = pl.Series(memoryview(numbers)).cast(pl.Int64)
    return pl.Series(names, dtype=kind or pl.Enum(names)).gather(column.set(column < 0, None))


def fragmentation_mean(record: Simulated) -> float:
    """Mean over the run of the sampled fragmentation, each sample holding until the next; 0 of nothing."""
    log = record.log
    if len(log.slot_times) == 0:
        return 0.0
    shares: list[float] = list(log.slot_fragmentation)
    times: list[float] = [*log.slot_times, record.end_s]
    if times[-1] <= times[0]:
        return shares[0]
    held_s = [end_s - start_s for start_s, end_s in pairwise(times)]
    return sum(share * length_s for share, length_s in zip(shares, held_s, strict=True)) / (times[-1] - times[0])


def slots_frame(record: Simulated) -> pl.DataFrame:
    """The samples, one row per instant, gang size and tier."""
    import polars as pl

    log = record.log
    tiers, sizes = record.tiers, record.gang_sizes
    cells = len(sizes) * len(tiers)
    rows = pl.int_range(len(log.slot_times) * cells, eager=True)
    sample, cell = rows // cells, rows % cells
    return pl.DataFrame(
        {
            "time_s": pl.Series(memoryview(log.slot_times), dtype=pl.Float64).gather(sample),
            "free_gpus": pl.Series(memoryview(log.slot_free), dtype=pl.Int32).gather(sample),
            "fragmentation": pl.Series(memoryview(log.slot_fragmentation), dtype=pl.Float64).gather(sample),
            "gpus": pl.Series(sizes, dtype=pl.Int32).gather(cell // len(tiers)),
            "tier": pl.Series(tiers, dtype=pl.Enum(tiers)).gather(cell % len(tiers)),
            "slots": pl.Series(memoryview(log.slot_counts), dtype=pl.Int32),
        }
    )


def of_queues(name: str, rows: list[tuple[object, ...]]) -> pl.DataFrame:
    """One of QUEUE_TABLES by name, from rows; [] in runs without queues.

    Shares: a row for each hour, queue and type of GPU. Reclaims: one for each job that stopped for another queue's
    share, with what its own held and was due. Stalls: one for each change of what a queue's first job waits for.
    """
    import polars as pl

    return pl.DataFrame(rows, schema=QUEUE_TABLES[name], orient="row")
