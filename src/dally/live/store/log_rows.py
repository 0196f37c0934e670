"""The engine's log of one cycle as rows of the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dally.cluster.topology import Topology
from dally.engine.log import EventLog
from dally.model import ACCEPT, DECISION_NAMES, INFINITY, KIND_NAMES, OFFER, RANK, RESERVE, ROUND, WAITS
from dally.report.explanation import ACTION

WOULD = "would"  # the kind of event that a dry run leaves instead of what it would have done
Named = Callable[[int], str | None]  # a job's id by its number


def event_rows(log: EventLog, topology: Topology, named: Named) -> list[dict[str, Any]]:
    """What happened."""
    rows: list[dict[str, Any]] = []
    for place in range(len(log)):
        machine, tier = int(log.machines[place]), int(log.tiers[place])
        parts = log.parts(place) if tier >= 0 else []
        rows.append(
            {
                "time_s": log.times[place],
                "kind": KIND_NAMES[log.kinds[place]],
                "job_id": named(int(log.jobs[place])),
                "machine": topology.names[0][machine] if machine >= 0 else None,
                "tier": topology.tiers[tier] if tier >= 0 else None,
                "placement": {topology.names[0][at]: gpus for at, gpus in parts} or None,
                "reason": log.reasons.get(place, ""),
            }
        )
    return rows


def would_row(now: float, job_id: str, what: str) -> dict[str, Any]:
    """What a dry run would have done."""
    none = dict.fromkeys(("machine", "tier", "placement"))
    return {"time_s": now, "kind": WOULD, "job_id": job_id, **none, "reason": what}


def end_row(now: float, job_id: str, kind: int) -> dict[str, Any]:
    """That a job ended which the engine does not know."""
    none = dict.fromkeys(("machine", "tier", "placement"))
    return {"time_s": now, "kind": KIND_NAMES[kind], "job_id": job_id, **none, "reason": ""}


def act_row(now: float, job_id: str | None, machine: str | None, what: str) -> dict[str, Any]:
    """What somebody did."""
    where: dict[str, Any] = dict.fromkeys(("tier", "placement"))
    return {"time_s": now, "kind": ACTION, "job_id": job_id, "machine": machine, **where, "reason": what}


def decision_rows(log: EventLog, topology: Topology, named: Named) -> list[dict[str, Any]]:
    """Why: the columns of decisions.parquet."""
    result = log.decisions
    rows: list[dict[str, Any]] = []
    first = 0
    for place in range(len(result)):
        last = int(result.timer_ends[place])
        numbers = [_finite(result.timers_s[at]) for at in range(first, last)]
        first = last
        kind, tier, value = int(result.kinds[place]), int(result.tiers[place]), _finite(result.values[place])
        ranked = kind in (WAITS, RANK)
        record = {
            "gpus": int(result.gpus[place]),
            "group": int(result.groups[place]),
            "tier": topology.tiers[tier] if tier >= 0 else None,
            "demand_kind": int(result.demand_kinds[place]),
            "rank": value if ranked else None,
            "tie": _finite(result.ties[place]) if ranked else None,
            "patience_s": value if kind == ACCEPT else None,
            "until_s": value if kind in (RESERVE, ROUND) else None,
            "winner": named(int(result.others[place])),
            "timers_s": numbers if kind == OFFER else [],
            "prices": [] if kind == OFFER else numbers,
        }
        rows.append(
            {
                "time_s": result.times[place],
                "kind": DECISION_NAMES[kind],
                "job_id": named(int(result.jobs[place])),
                "told": record,
            }
        )
    return rows


def _finite(value: float) -> float | str:
    """The number, as JSON has no infinity."""
    return value if abs(value) < INFINITY else str(value)
