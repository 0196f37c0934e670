"""Jobs that have ended, from the store."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from dally.live.status import JobStatus
from dally.live.store import Store
from dally.live.store.job_rows import REPLACED, observed_of, tier_of
from dally.live.store.schema import JOBS
from dally.live.wall_clock import WallClock
from dally.web.auth.tokens import Caller
from dally.web.routes.bodies import Job, job_body


def ended_job(store: Store, clock: WallClock, tiers: list[str], job_id: str) -> Job | None:
    """The job of that id, the latest if there were several."""
    query = select(JOBS).where(JOBS.c.job_id == job_id, JOBS.c.outcome.not_in(("", REPLACED)))
    rows = store.rows(query.order_by(JOBS.c.number.desc()).limit(1))
    return _job(rows[0], clock, tiers) if rows else None


def ended_jobs(
    store: Store, clock: WallClock, tiers: list[str], state: str, user: str | None, offset: int, limit: int
) -> tuple[int, list[Job]]:
    """How many ended so, and some of them, the latest first; no state: however they ended."""
    chosen = [JOBS.c.outcome == state if state else JOBS.c.outcome.not_in(("", REPLACED))]
    if user is not None:
        chosen.append(JOBS.c.observed["spec"]["user"].as_string() == user)
    total = store.rows(select(func.count().label("jobs")).select_from(JOBS).where(*chosen))[0]["jobs"]
    rows = store.rows(
        select(JOBS)
        .where(*chosen)
        .order_by(JOBS.c.finish_s.desc(), JOBS.c.number.desc())
        .offset(offset)
        .limit(limit)
    )
    return int(total), [_job(row, clock, tiers) for row in rows]


def whose(caller: Caller, user: str | None) -> str | None:
    """The user whose jobs are asked for, as far as they are the caller's business; None: everybody's."""
    return user if caller.sees("") else caller.user


def _job(row: dict[str, Any], clock: WallClock, tiers: list[str]) -> Job:
    observed, clocks = observed_of(row), row["clocks"]
    line = JobStatus(
        job_id=row["job_id"],
        spec=observed.spec,
        state=row["outcome"],
        managed=observed.managed,
        submit_s=clock.wall_s(row["submit_s"]),
        since_s=clock.wall_s(row["finish_s"]),
        place=None,
        placement={},
        tier=tier_of(row, tiers),
        work_s=clocks["work_s"],
        slowdown=None,
        preemptions=clocks["preemptions"],
        migrations=clocks["migrations"],
        why=observed.reason,
        reason="",
        next_s=None,
    )
    return job_body(line)
