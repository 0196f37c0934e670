"""What was said of starts and what came, in the store; and from that how well it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Final, NamedTuple

from sqlalchemy import delete, insert, select, update

from dally.live.forecast.conformal import LATEST, Interval, Observation
from dally.live.store import Store
from dally.live.store.schema import PREDICTIONS
from dally.model import INFINITY

MOST_READ: Final = 50_000  # answers that are looked at: with a long queue there are as many in half a day
SAME_START_S: Final = 1.0  # answers about one job that were true at the same moment are of one wait


class Answered(NamedTuple):
    """An answer and what came."""

    stated: Interval
    raw: Interval  # of the futures themselves
    wait_s: float
    first: bool  # for this wait of its job


@dataclass(frozen=True)
class CalibrationDay:
    """How well the answers of a day held, as far as their jobs have started."""

    day: str
    answers: int
    held: float  # share of the intervals as told in which the start came
    held_raw: float  # the same of the futures' own
    error_s: float  # the median distance of the start from the middle as told
    first_answers: int  # given first, on average long before the start: later ones about a job are easier
    first_held: float


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
    return [
        Observation(_read(row["raw"]), start_s - row["asked_s"], _read(row["told"]), row["asked_s"]) for row in rows
    ]


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
    return [
        Observation(_read(row["raw"]), row["wait_s"], _read(row["told"]), row["asked_s"]) for row in reversed(rows)
    ]


def calibration(store: Store, wall_s: Callable[[float], float]) -> list[CalibrationDay]:
    """Day by day (UTC), the latest first, as far as the latest answers go back."""
    at = PREDICTIONS.c
    columns = select(at.job_id, at.asked_s, at.told, at.raw, at.wait_s)
    query = columns.where(PREDICTIONS.c.wait_s.is_not(None)).order_by(PREDICTIONS.c.asked_s.desc()).limit(MOST_READ)
    days: dict[str, list[Answered]] = {}
    rows = list(store.tuples(query))
    first_s: dict[tuple[str, int], float] = {}
    for job_id, requested_s, _, _, wait_s in rows:
        first_s[_wait(job_id, requested_s + wait_s)] = requested_s  # the earliest comes last
    for job_id, requested_s, record, raw, wait_s in rows:
        day = datetime.fromtimestamp(wall_s(requested_s), UTC).date().isoformat()
        first = first_s[_wait(job_id, requested_s + wait_s)] == requested_s
        days.setdefault(day, []).append(Answered(_read(record), _read(raw), wait_s, first))
    return [_day(day, answers) for day, answers in days.items()]


def _wait(job_id: str, start_s: float) -> tuple[str, int]:
    """Which wait of the job ended then: a preempted one waits again."""
    return job_id, round(start_s / SAME_START_S)


def _day(day: str, answers: list[Answered]) -> CalibrationDay:
    first = [answer for answer in answers if answer.first]
    return CalibrationDay(
        day,
        len(answers),
        _share(_holds(answer.stated, answer.wait_s) for answer in answers),
        _share(_holds(answer.raw, answer.wait_s) for answer in answers),
        median(
            abs(answer.wait_s - answer.stated.middle_s) if answer.stated.middle_s < INFINITY else answer.wait_s
            for answer in answers
        ),
        len(first),
        _share(_holds(answer.stated, answer.wait_s) for answer in first),
    )


def _share(hits: Iterable[bool]) -> float:
    listed = list(hits)
    return sum(listed) / len(listed) if listed else 0.0


def _holds(interval: Interval, wait_s: float) -> bool:
    return interval.low_s <= wait_s <= interval.high_s


def _written(interval: Interval) -> list[float | None]:
    return [None if value == INFINITY else value for value in astuple(interval)]


def _read(values: object) -> Interval:
    assert isinstance(values, list)
    low_s, middle_s, high_s = (INFINITY if value is None else float(value) for value in values)
    return Interval(low_s, middle_s, high_s)
