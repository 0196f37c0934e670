"""Policies compared by queue, for people and for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dally.metrics.comparison import Contest, Entry
from dally.metrics.spread import Spread, spread
from dally.metrics.summary import BY_QUEUE, by_queue
from dally.report.share_tables import FIGURES
from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import brief

MOST_QUEUES = 6  # that a table of policies has columns for


def compared_queues(contest: Contest) -> list[str]:
    """The queues that the runs have, those with most GPU-hours first."""
    hours: dict[str, float] = {}
    for row in contest.rows():
        for queue in queues_of(row):
            hours[queue] = hours.get(queue, 0.0) + (row[by_queue("gpu_h", queue)] or 0.0)
    return sorted(hours, key=lambda queue: (-hours[queue], queue)) if len(hours) > 1 else []


def queues_of(row: Mapping[str, Any]) -> list[str]:
    """The queues of which a run's row has figures."""
    begin = by_queue("gpu_h", "")[:-1]
    return [name[len(begin) : -1] for name in row if name.startswith(begin)]


def by_queue_tables(contest: Contest) -> Iterator[str | TextTable]:
    """A table of policies by queues for waits and for completion times; the Jain index behind."""
    queues = compared_queues(contest)
    if not queues:
        return
    shown = queues[:MOST_QUEUES]
    left = f"; those of {len(queues) - len(shown)} more queues: --json" if len(queues) > len(shown) else ""
    for figure, title in FIGURES.items():
        rows = []
        for entry in contest.entries:
            cells = [_shown(_spread(entry, by_queue(figure, queue))) for queue in shown]
            even = _spread(entry, "jain")
            rows.append([entry.label, *cells, f"{even.mean:.3f}" if even else "-"])
        yield f"{title[0].upper()}{title[1:]} by queue{left}"
        yield plain_table(["", *shown, "Jain index"], rows)


def by_queue_values(entry: Entry) -> dict[str, Any]:
    """The same for scripts: empty where there are no queues."""
    queues = queues_of(entry.rows[0])
    if not queues:
        return {}
    result = {
        queue: {figure: _values(_spread(entry, by_queue(figure, queue))) for figure in BY_QUEUE} for queue in queues
    }
    return {
        "queues": result,
        "jain": _values(_spread(entry, "jain")),
        "rho_max": _values(_spread(entry, "rho_max")),
    }


def _spread(entry: Entry, column: str) -> Spread | None:
    return spread(row.get(column) for row in entry.replications)


def _values(result: Spread | None) -> dict[str, float] | None:
    return (
        {"mean": result.mean, "spread": result.half(), "low": result.low, "high": result.high} if result else None
    )


def _shown(result: Spread | None) -> str:
    if result is None:
        return "-"
    half = _time(result.half())
    return _time(result.mean) + (
        f" ±{half}" if result.half() >= 0.0005 * result.mean and result.half() >= 0.05 else ""
    )


def _time(seconds: float) -> str:
    return brief(seconds, in_table=True)
