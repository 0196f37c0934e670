"""What was said of starts and what came, in the store; and from that how well it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Final

from sqlalchemy import delete, insert, select, update

from dally.live.forecast.conformal import LATEST, Interval, Observation
from dally.live.store import Store
from dally.live.store.schema import PREDICTIONS
from dally.model import INFINITY

MOST_READ: Final = 50_000  # answers that are looked at: with a long queue there are as many in half a day
Answered = tuple[Interval, Interval, float]  # as told, of the futures themselves, and the seconds that came


@dataclass(frozen=True)
class CalibrationDay:
    """How well the answers of a day held, as far as their jobs have started."""

    day: str
    answers: int
    held: float  # share of the intervals as told in which the start came
    held_raw: float  # the same of the futures' own
    error_s: float  # the median distance of the start from the middle as told


def keep_prediction(
    store: Store, job_id: str, requested_s: float, futures: int, raw: Interval, record: Interval
) -> None:
    """Something was said of a job's start."""
    row = {
        "job_id": job_id, "asked_s": requested_s, "futures": futures, "raw": _written(raw),
        "told": _written(record), "wait_s": None,
    }  # fmt: skip
    with store.transaction() as connection:
        connection.execute(insert(PREDICTIONS), [row])


def open_predictions(store: Store) -> list[tuple[str, float, Interval]]:
    """What was said of jobs that still wait: the job, when, and what the futures said."""
    rows = store.rows(select(PREDICTIONS).where(PREDICTIONS.c.wait_s.is_(None)))
    return [(row["job_id"], row["asked_s"], _read(row["raw"])) for row in rows]


def resolve(store: Store, job_id: str, start_s: float) -> list[Observation]:
    """The job has started: what became of all that was said of it."""
    unresolved = (PREDICTIONS.c.job_id == job_id) & PREDICTIONS.c.wait_s.is_(None)
    rows = store.rows(select(PREDICTIONS).where(unresolved).order_by(PREDICTIONS.c.asked_s))
    with store.transaction() as connection:
        connection.execute(update(PREDICTIONS).where(unresolved).values(wait_s=start_s - PREDICTIONS.c.asked_s))
    return [Observation(_read(row["raw"]), start_s - row["asked_s"], _read(row["told"])) for row in rows]


def drop(store: Store, job_id: str) -> None:
    """The job will never start: nothing follows from what was said of it."""
    with store.transaction() as connection:
        connection.execute(
            delete(PREDICTIONS).where((PREDICTIONS.c.job_id == job_id) & PREDICTIONS.c.wait_s.is_(None))
        )


def latest_observations(store: Store) -> list[Observation]:
    """What became of the latest answers, in the order in which that was known."""
    started_s = PREDICTIONS.c.asked_s + PREDICTIONS.c.wait_s
    rows = store.rows(
        select(PREDICTIONS).where(PREDICTIONS.c.wait_s.is_not(None)).order_by(started_s.desc()).limit(LATEST)
    )
    return [Observation(_read(row["raw"]), row["wait_s"], _read(row["told"])) for row in reversed(rows)]


def calibration(store: Store, wall_s: Callable[[float], float]) -> list[CalibrationDay]:
    """Day by day (UTC), the latest first, as far as the latest answers go back."""
    columns = select(PREDICTIONS.c.asked_s, PREDICTIONS.c.told, PREDICTIONS.c.raw, PREDICTIONS.c.wait_s)
    query = columns.where(PREDICTIONS.c.wait_s.is_not(None)).order_by(PREDICTIONS.c.asked_s.desc()).limit(MOST_READ)
    days: dict[str, list[Answered]] = {}
    for requested_s, record, raw, wait_s in store.tuples(query):
        day = datetime.fromtimestamp(wall_s(requested_s), UTC).date().isoformat()
        days.setdefault(day, []).append((_read(record), _read(raw), wait_s))
    return [_day(day, rows) for day, rows in days.items()]


def _day(day: str, rows: list[Answered]) -> CalibrationDay:
    record = [(interval, wait_s) for interval, _, wait_s in rows]
    raw = [(interval, wait_s) for _, interval, wait_s in rows]
    return CalibrationDay(
        day,
        len(rows),
        sum(_holds(*one) for one in record) / len(rows),
        sum(_holds(*one) for one in raw) / len(rows),
        median(
            abs(wait_s - interval.middle_s) if interval.middle_s < INFINITY else wait_s
            for interval, wait_s in record
        ),
    )


def _holds(interval: Interval, wait_s: float) -> bool:
    return interval.low_s <= wait_s <= interval.high_s


def _written(interval: Interval) -> list[float | None]:
    return [None if value == INFINITY else value for value in astuple(interval)]


def _read(values: object) -> Interval:
    assert isinstance(values, list)
    low_s, middle_s, high_s = (INFINITY if value is None else float(value) for value in values)
    return Interval(low_s, middle_s, high_s)
