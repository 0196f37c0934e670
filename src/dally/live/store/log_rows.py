"""Rows of the store and back: the engine's log of a cycle, shares of teams, jobs, and what people asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select, update

from dally.cluster.topology import Topology
from dally.engine.log import EventLog
from dally.live.backends.base import ObservedJob, Placement
from dally.live.store.database import Store
from dally.live.store.schema import ACTIONS, EVENTS
from dally.model import (
    ACCEPT,
    DECISION_NAMES,
    INFINITY,
    KIND_NAMES,
    OFFER,
    RANK,
    RESERVE,
    ROUND,
    STATUS_NAMES,
    WAITS,
    Job,
)
from dally.policies.base import Policy
from dally.policies.gate.gate import Gate
from dally.policies.gate.notes import Reclaimed, Sample, Stall
from dally.report.explanation import ACTION

WOULD = "would"  # the kind of event that a dry run leaves instead of what it would have done
RANKED: Final = frozenset((WAITS, RANK))  # kinds of decisions with a rank,
UNTIL: Final = frozenset((RESERVE, ROUND))  # and with a moment
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
    tiers, timers_s = topology.tiers, result.timers_s
    columns = zip(  # looked up once: a cycle may rank thousands of jobs anew
        result.times, result.kinds, result.jobs, result.gpus, result.groups, result.demand_kinds, result.tiers,
        result.values, result.ties, result.others, result.timer_ends, strict=True,
    )  # fmt: skip
    for time_s, kind, job, gpus, group, demand_kind, tier, value, tie, other, end in columns:
        last = int(end)
        numbers = [_finite(timers_s[at]) for at in range(first, last)] if last > first else []
        first = last
        ranked, finite = kind in RANKED, _finite(value)
        record = {
            "gpus": int(gpus),
            "group": int(group),
            "tier": tiers[tier] if tier >= 0 else None,
            "demand_kind": int(demand_kind),
            "rank": finite if ranked else None,
            "tie": _finite(tie) if ranked else None,
            "patience_s": finite if kind == ACCEPT else None,
            "until_s": finite if kind in UNTIL else None,
            "winner": named(int(other)) if other >= 0 else None,
            "timers_s": numbers if kind == OFFER else [],
            "prices": [] if kind == OFFER else numbers,
        }
        rows.append({"time_s": time_s, "kind": DECISION_NAMES[kind], "job_id": named(int(job)), "told": record})
    return rows


def _finite(value: float) -> float | str:
    """The number, as JSON has no infinity."""
    return value if abs(value) < INFINITY else str(value)


SHARE: Final = "share"
RECLAIM: Final = "reclaim"
STALL: Final = "stall"
TABLES: Final = {"shares": SHARE, "reclaims": RECLAIM, "stalls": STALL}  # of a record, by kind of row
KINDS: Final = {Sample: SHARE, Reclaimed: RECLAIM, Stall: STALL}


def share_rows(policy: Policy) -> list[dict[str, Any]]:
    """What was noted since the last cycle, as rows of the table `decisions`; [] without queues."""
    if not isinstance(policy, Gate):
        return []
    return [
        {"time_s": note.time_s, "kind": KINDS[type(note)], "job_id": None, "told": note._asdict()}
        for note in policy.take_notes()
    ]


def queue_of(policy: Policy, job: Any) -> str:
    """The queue that a job is in; empty: there are none."""
    return policy.queue_of(job) if isinstance(policy, Gate) else ""


# The engine's clocks and counts of a job: enough to go on where it stands.
CLOCKS = (
    "start_s", "placed_s", "finish_s", "lost_s", "since_s", "rate", "comm_rate", "work_s", "held_s", "compute_s",
    "comm_s", "overhead_s", "restart_due_s", "saved_work_s", "saved_compute_s", "saved_comm_s",
)  # fmt: skip
# Outcomes that no backend knows.
UNKNOWN = "unknown"  # it is gone, and nobody said how it ended
REPLACED = "replaced"  # it goes on under the same name and another number, with other GPUs
COUNTS = ("tier", "preemptions", "renewals", "migrations", "resizes")


def job_row(job: Job, observed: ObservedJob, placement: Placement | None) -> dict[str, Any]:
    """The job's row of the table `jobs`, but for its outcome."""
    clocks: dict[str, Any] = {name: getattr(job, name) for name in CLOCKS}
    clocks.update({name: int(getattr(job, name)) for name in COUNTS})
    clocks["reported_s"] = job.reported_s  # for the history alone: a job that goes on says it anew
    clocks["lease_end_s"] = None if job.lease_end_s == INFINITY else job.lease_end_s
    return {
        "number": int(job.index),
        "job_id": job.job_id,
        "status": STATUS_NAMES[job.status],
        "outcome": "",
        "submit_s": job.submit_s,
        "finish_s": job.finish_s if job.finish_s >= 0.0 else None,
        "observed": asdict(replace(observed, allowed=None)),  # the backend reports that anew, and it may be long
        "clocks": clocks,
        "placement": placement,
    }


def ended_row(job: Job, observed: ObservedJob, outcome: str, now: float) -> dict[str, Any]:
    """The row of a job that will not be back: how it ended is the backend's word, or one of the two above."""
    return {**job_row(job, observed, None), "outcome": outcome, "finish_s": now}


def restore_clocks(job: Job, clocks: dict[str, Any]) -> None:
    """Put a job back to where its row says it was, but for status and GPUs."""
    for name in (*CLOCKS, *COUNTS):
        setattr(job, name, clocks.get(name, 0))  # earlier daemons kept no `resizes`
    lease_end_s = clocks["lease_end_s"]
    job.lease_end_s = INFINITY if lease_end_s is None else lease_end_s


def tier_of(row: dict[str, Any], tiers: list[str]) -> str:
    """The tier that the job sat in last; empty: none, or none of these, as the cluster was another then."""
    tier = int(row["clocks"]["tier"])
    return tiers[tier] if 0 <= tier < len(tiers) else ""


def observed_of(row: dict[str, Any]) -> ObservedJob:
    """What the backend had said of the job."""
    return ObservedJob.read(row["observed"])


DONE: Final = "done"
PENDING: Final = "asked"  # the cluster's own software was to be asked, and nobody noted what it said


def add_action(connection: Connection, row: dict[str, Any]) -> int:
    """A new row; its number."""
    key = connection.execute(insert(ACTIONS).values(**row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def note_outcome(store: Store, number: int, outcome: str) -> None:
    """What came of it."""
    with store.transaction() as connection:
        connection.execute(update(ACTIONS).where(ACTIONS.c.id == number).values(outcome=outcome))


def events(
    store: Store, job_id: str | None, kind: str | None, offset: int, limit: int, without: str = ""
) -> tuple[int, list[dict[str, Any]]]:
    """How many there are of that job and kind (None: any) and not of the kind `without`; some, the latest first."""
    chosen = [EVENTS.c[name] == value for name, value in (("job_id", job_id), ("kind", kind)) if value is not None]
    chosen.append(EVENTS.c.kind != without)
    total = store.rows(select(func.count().label("events")).select_from(EVENTS).where(*chosen))[0]["events"]
    query = select(EVENTS).where(*chosen).order_by(EVENTS.c.id.desc()).offset(offset).limit(limit)
    return int(total), store.rows(query)


def actions(
    store: Store, owner: str | None, job_id: str | None, machine: str | None, offset: int, limit: int
) -> tuple[int, list[dict[str, Any]]]:
    """How many there are on jobs of that owner, that job, that machine (None: any); some, the latest first."""
    request = {"owner": owner, "job_id": job_id, "machine": machine}
    chosen = [ACTIONS.c[name] == value for name, value in request.items() if value is not None]
    if owner is not None:
        chosen.append(ACTIONS.c.job_id.is_not(None))  # machines are nobody's
    total = store.rows(select(func.count().label("actions")).select_from(ACTIONS).where(*chosen))[0]["actions"]
    query = select(ACTIONS).where(*chosen).order_by(ACTIONS.c.id.desc()).offset(offset).limit(limit)
    return int(total), store.rows(query)
