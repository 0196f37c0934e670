"""How the cluster fared, in the store: a row per minute, read back as as many points as a chart can show."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import delete, func, select

from dally.live.store.database import Store, replace_rows
from dally.live.store.schema import TRENDS
from dally.metrics.trends import GAUGES, Point

MINUTE_S: Final = 60.0
WIDTHS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)  # minutes that one point may stand for
SUMMED: Final = ("preemptions",)
LARGEST: Final = ("longest_cycle_ms",)


def write_point(store: Store, minute: int, at_s: float, point: Point) -> None:
    """How things stood in that minute of the wall clock."""
    row: dict[str, Any] = {name: point.values.get(name) for name, _, _ in GAUGES}
    timers = {str(gpus): list(timers_s) for gpus, timers_s in point.timers_s.items()}
    with store.transaction() as connection:
        replace_rows(connection, TRENDS, "minute", [{"minute": minute, "at_s": at_s, "timers": timers, **row}])


def newest_minute(store: Store) -> int:
    """The latest that has a row; -1: none has."""
    ((result,),) = store.tuples(select(func.max(TRENDS.c.minute)))
    return -1 if result is None else int(result)


def prune_points(store: Store, before: int) -> None:
    """Forget what was before that minute."""
    with store.transaction() as connection:
        connection.execute(delete(TRENDS).where(TRENDS.c.minute < before))


def read_points(
    store: Store, from_s: float, to_s: float, most: int
) -> tuple[list[float], list[int], int, list[Point]]:
    """Moments of the engine's clock, the minutes they fall into, how many minutes each stands for, and the points.

    Where there would be more than `most`, several minutes become one: means, sums of what is counted.
    """
    within = (TRENDS.c.at_s >= from_s) & (TRENDS.c.at_s <= to_s)
    ends = select(func.min(TRENDS.c.minute), func.max(TRENDS.c.minute), func.count()).where(within)
    ((first, last, count),) = store.tuples(ends)
    if not count:
        return [], [], 1, []
    width = width_for((last - first + 1) if count > most else 1, most)
    bucket = TRENDS.c.minute // width
    columns = [_thinned(name) for name, _, _ in GAUGES]
    newest = func.max(TRENDS.c.minute)
    rows = store.tuples(
        select(newest, func.max(TRENDS.c.at_s), *columns).where(within).group_by(bucket).order_by(newest)
    )
    timers = dict(
        store.tuples(select(TRENDS.c.minute, TRENDS.c.timers).where(TRENDS.c.minute.in_([row[0] for row in rows])))
    )
    names = [name for name, _, _ in GAUGES]
    points = [
        Point(
            {name: value for name, value in zip(names, row[2:], strict=True) if value is not None},
            {int(gpus): tuple(timers_s) for gpus, timers_s in timers[row[0]].items()},
        )
        for row in rows
    ]
    return [row[1] for row in rows], [row[0] for row in rows], width, points


def width_for(minutes: int, most: int) -> int:
    """How many minutes one point stands for, so that there are not too many."""
    return next((width for width in WIDTHS if minutes <= width * (most - 1)), -(-minutes // max(1, most - 1)))


def _thinned(name: str) -> Any:
    column = TRENDS.c[name]
    if name in SUMMED:
        return func.sum(column)
    return func.max(column) if name in LARGEST else func.avg(column)
