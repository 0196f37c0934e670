"""What a backend may show its users after a cycle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from dally.live.backends.base import PreemptionNotice, Publication, StartNotice, WaitingNotice
from dally.live.status import NOT_OFFERED, ClusterStatus

WAITS: Final = frozenset(("waiting", *NOT_OFFERED))


def publication_of(
    status: ClusterStatus, rows: Sequence[dict[str, Any]], expected_start: Callable[[str], str]
) -> Publication:
    """The status and the events of the latest cycle."""
    changes: list[StartNotice | PreemptionNotice] = []
    for row in rows:
        if row["kind"] == "start":
            changes.append(StartNotice(row["job_id"], row["tier"] or "", row["placement"] or {}))
        elif row["kind"] in ("preempt", "migrate", "resize"):
            changes.append(PreemptionNotice(row["job_id"], _winner(status, rows, row["job_id"])))
    waiting = [
        WaitingNotice(line.job_id, line.state, line.reason, line.why, line.next_s)
        for line in status.jobs
        if line.managed and line.state in WAITS
    ]
    return Publication(status.by_id.keys(), tuple(waiting), tuple(changes), expected_start)


def _winner(status: ClusterStatus, rows: Sequence[dict[str, Any]], victim: str) -> str:
    """The job that got the victim's GPUs; empty: none yet."""
    line = status.by_id.get(victim)
    held = set(line.placement) if line is not None else set()
    for row in rows:
        if row["kind"] == "start" and row["job_id"] != victim and held & set(row["placement"] or {}):
            return str(row["job_id"])
    return ""
