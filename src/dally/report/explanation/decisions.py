"""What the policy had decided by a moment: ranks of waiting jobs, offers, reservations, rounds, stalls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import polars as pl

from dally.metrics.record import Record
from dally.model import INFINITY
from dally.report.explanation.course import NONE, Latest
from dally.report.explanation.waiting import WaitRecords

DEMAND: Final = ["gpus", "group", "demand_kind"]
OFFERED: Final = (*DEMAND, "tier", "timers_s")


class Rank(NamedTuple):
    """How a job waits: its rank, what breaks equal ones, and what tells its demand from others of its size."""

    rank: float
    tie: float
    group: int  # GPUs that must share a machine
    demand_kind: int


UNRANKED: Final = Rank(INFINITY, INFINITY, 1, 0)


class DecisionIndex:
    """The decisions of a run, by what they are about."""

    def __init__(self, run: Record) -> None:
        decisions = run.decisions
        self._tiers = run.tiers
        self._ranked = Latest(decisions.filter(pl.col("rank").is_not_null()), "job_id", *Rank._fields)
        self._ranks = list(map(Rank, *(self._ranked.values[name] for name in Rank._fields)))
        offers = decisions.filter(pl.col("kind") == "offer").with_columns(
            demand=pl.concat_str([pl.col(name) for name in DEMAND], separator=" ")
        )
        self._to_all = Latest(offers.filter(pl.col("job_id").is_null()), "demand", "kind", *OFFERED)
        self._to_one = Latest(offers.filter(pl.col("job_id").is_not_null()), "job_id", "kind", *OFFERED)
        self._firsts = _of_all(decisions, "head", "reserve")
        self._rounds = _of_all(decisions, "round")
        self._admitted = Latest(decisions.filter(pl.col("kind").is_in(["defer", "admit"])), "job_id", "kind")
        stalls = run.stalls.with_columns(kind=pl.lit("stall"))
        self._stalls = Latest(stalls, "queue", "kind", *run.stalls.columns[1:])

    def rank(self, job_id: str, at_s: float) -> Rank:
        """What the order and offers to the job go by; jobs without a rank come last."""
        row = self._ranked.last(job_id, at_s)
        return self._ranks[row] if row != NONE else UNRANKED

    def records(self, waiting: Iterable[str], at_s: float) -> WaitRecords:
        """What a daemon would know at that moment of these jobs."""
        names = set(waiting)
        records = WaitRecords(self._tiers)
        records.learn(_rows(self._to_all, self._to_all, at_s, named=False))
        for latest in (self._to_one, self._admitted):
            if len(latest):
                records.learn(_rows(latest, names, at_s))
        records.learn(_rows(self._stalls, self._stalls, at_s))
        records.learn(row for row in _rows(self._firsts, [0], at_s) if row["job_id"] in names)
        records.learn(_rows(self._rounds, [0], at_s))
        return records

    def timers_s(self, sizes: set[int], at_s: float) -> dict[int, tuple[float, ...]]:
        """Delays of gangs of each size before each tier above the machine, as last recorded for all of them."""
        rows = [row["told"] for row in _rows(self._to_all, self._to_all, at_s, named=False)]
        timers = {row["gpus"]: tuple(row["timers_s"]) for row in rows if row["timers_s"]}
        return {gpus: timers[gpus] for gpus in sorted(sizes & set(timers))}


def _of_all(decisions: pl.DataFrame, *kinds: str) -> Latest:
    """Decisions of which only the latest counts, whatever its job."""
    rows = decisions.filter(pl.col("kind").is_in(kinds)).with_columns(line=0)
    return Latest(rows, "line", "kind", "job_id", "until_s")


def _rows(latest: Latest, keys: Iterable[Any], at_s: float, named: bool = True) -> Iterable[dict[str, Any]]:
    """The last row of each key, as WaitRecords learn them."""
    for key in keys:
        row = latest.last(key, at_s)
        if row != NONE:
            record = {name: column[row] for name, column in latest.values.items()}
            yield {"kind": record["kind"], "job_id": record.get("job_id", key) if named else None, "told": record}
