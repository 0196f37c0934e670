"""A job as a row and back: what the backend said of it, and how far it has come."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dally.live.backends.base import ObservedJob, Placement
from dally.model import INFINITY, STATUS_NAMES, Job

# The engine's clocks and counts of a job: enough to go on where it stands.
CLOCKS = (
    "start_s", "placed_s", "finish_s", "lost_s", "since_s", "rate", "comm_rate", "work_s", "held_s", "compute_s",
    "comm_s", "overhead_s", "restart_due_s", "saved_work_s", "saved_compute_s", "saved_comm_s",
)  # fmt: skip
# Outcomes that no backend knows.
UNKNOWN = "unknown"  # it is gone, and nobody said how it ended
REPLACED = "replaced"  # it goes on under the same name and another number, with other GPUs
COUNTS = ("tier", "preemptions", "renewals", "migrations")


def job_row(job: Job, observed: ObservedJob, placement: Placement | None) -> dict[str, Any]:
    """The job's row of the table `jobs`, but for its outcome."""
    clocks: dict[str, Any] = {name: getattr(job, name) for name in CLOCKS}
    clocks.update({name: int(getattr(job, name)) for name in COUNTS})
    clocks["lease_end_s"] = None if job.lease_end_s == INFINITY else job.lease_end_s
    return {
        "number": int(job.index),
        "job_id": job.job_id,
        "status": STATUS_NAMES[job.status],
        "outcome": "",
        "submit_s": job.submit_s,
        "finish_s": job.finish_s if job.finish_s >= 0.0 else None,
        "observed": asdict(observed),
        "clocks": clocks,
        "placement": placement,
    }


def ended_row(job: Job, observed: ObservedJob, outcome: str, now: float) -> dict[str, Any]:
    """The row of a job that will not be back: how it ended is the backend's word, or one of the two above."""
    return {**job_row(job, observed, None), "outcome": outcome, "finish_s": now}


def restore_clocks(job: Job, clocks: dict[str, Any]) -> None:
    """Put a job back to where its row says it was, but for status and GPUs."""
    for name in (*CLOCKS, *COUNTS):
        setattr(job, name, clocks[name])
    lease_end_s = clocks["lease_end_s"]
    job.lease_end_s = INFINITY if lease_end_s is None else lease_end_s


def tier_of(row: dict[str, Any], tiers: list[str]) -> str:
    """The tier that the job sat in last; empty: none, or none of these, as the cluster was another then."""
    tier = int(row["clocks"]["tier"])
    return tiers[tier] if 0 <= tier < len(tiers) else ""


def observed_of(row: dict[str, Any]) -> ObservedJob:
    """What the backend had said of the job."""
    return ObservedJob.read(row["observed"])
