"""Why jobs wait, for a page that can be asked at any moment: the policy's records as packed columns."""

from __future__ import annotations

from math import inf
from typing import Any

import polars as pl

from dally.metrics.record import Record

MOST_RECORDS = 400_000  # of ranks, notes and offers together: with more the page says where to ask instead
NOTES = ("head", "reserve", "round", "defer", "admit")
NEVER = 2**32 - 1  # as a tick
ASCENDING = ("rank_time", "note_time", "offer_time")


def reasons_of(run: Record, tick_s: float) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Columns for the page's script, and the demands and timers that they refer to."""
    index = run.jobs.select("job_id").with_row_index("job")
    told = run.decisions.join(index, on="job_id", how="left", maintain_order="left")
    ranks = told.filter(pl.col("rank").is_not_null(), pl.col("job").is_not_null())
    notes = told.filter(pl.col("kind").is_in(NOTES))
    offers = told.filter(pl.col("kind") == "offer")
    if ranks.height + notes.height + offers.height > MOST_RECORDS:
        ranks, notes, offers = ranks.clear(), notes.clear(), offers.clear()
        known = False
    else:
        known = True
    demands, numbers = _demands(ranks, offers)
    timers = list(dict.fromkeys(tuple(row) for row in offers["timers_s"].to_list()))
    places = {row: place for place, row in enumerate(timers)}
    tiers = {name: number for number, name in enumerate(run.tiers, 1)}
    columns = {
        "rank_time": _ticks(ranks, tick_s),
        "rank_job": ranks["job"].to_list(),
        "rank_order": _order(ranks),
        "rank_demand": [numbers[row] for row in _asked(ranks)],
        "note_time": _ticks(notes, tick_s),
        "note_kind": [NOTES.index(kind) for kind in notes["kind"]],
        "note_job": _or_all(notes),
        "note_until": [_until(value, tick_s) for value in notes["until_s"].to_list()],
        "offer_time": _ticks(offers, tick_s),
        "offer_job": _or_all(offers),
        "offer_demand": [numbers[row] for row in _asked(offers)],
        "offer_tier": [tiers.get(tier or "", 0) for tier in offers["tier"].cast(pl.String).to_list()],
        "offer_timers": [places[tuple(row)] for row in offers["timers_s"].to_list()],
    }
    finite = [[None if value == inf else value for value in row] for row in timers]
    return columns, {"demands": demands, "timers": finite, "reasons": known}


def _ticks(rows: pl.DataFrame, tick_s: float) -> list[int]:
    return (rows["time_s"] / tick_s).floor().cast(pl.Int64).to_list()


def _order(ranks: pl.DataFrame) -> list[int]:
    """The place of each rank among all; jobs with the same one go by their number."""
    ordered = (
        ranks.select("rank", "tie")
        .with_row_index("row")
        .sort("rank", "tie", nulls_last=True, maintain_order=True)
        .with_columns(
            (pl.col("rank").ne_missing(pl.col("rank").shift(1)) | pl.col("tie").ne_missing(pl.col("tie").shift(1)))
            .cum_sum()
            .alias("place")
        )
    )
    return ordered.sort("row")["place"].to_list()


def _asked(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    return list(rows.select("gpus", "group", "demand_kind").iter_rows())


def _demands(ranks: pl.DataFrame, offers: pl.DataFrame) -> tuple[list[int], dict[tuple[Any, ...], int]]:
    """The GPUs of each demand, and its number."""
    numbers = {row: place for place, row in enumerate(dict.fromkeys([*_asked(ranks), *_asked(offers)]))}
    return [int(row[0] or 0) for row in numbers], numbers


def _or_all(rows: pl.DataFrame) -> list[int]:
    """The number of the job behind each record, from 1; 0: it is about all."""
    return [0 if job is None else job + 1 for job in rows["job"].to_list()]


def _until(value: float | None, tick_s: float) -> int:
    return NEVER if value is None or value == inf else min(round(value / tick_s), NEVER - 1)
