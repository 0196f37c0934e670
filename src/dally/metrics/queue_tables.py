"""shares.parquet and reclaims.parquet: what queues held against what they were due, and who gave way to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

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
ALL = {"shares": SHARES, "reclaims": RECLAIMS, "stalls": STALLS}


def shares_frame(record: Simulated) -> pl.DataFrame:
    """A row for each hour, queue and type of GPU: held, asked for, due, guaranteed, and past use, decayed."""
    return _frame(list(record.sharing.samples) if record.sharing else [], SHARES)


def reclaims_frame(record: Simulated) -> pl.DataFrame:
    """A row for each job that stopped for another queue's share, with what its own held and was due."""
    return _frame(list(record.sharing.reclaimed) if record.sharing else [], RECLAIMS)


def stalls_frame(record: Simulated) -> pl.DataFrame:
    """A row for each change of what the first job of a queue waits for: its limit, budget or share."""
    return _frame(list(record.sharing.stalls) if record.sharing else [], STALLS)


def of_queues(name: str, rows: list[tuple[object, ...]]) -> pl.DataFrame:
    """One of ALL by name, from rows; [] in runs without queues."""
    return _frame(rows, ALL[name])


def _frame(rows: list[tuple[object, ...]], columns: dict[str, type]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(rows, schema=columns, orient="row")
