"""What concerns the cluster as a whole: alerts, the queues of teams, and what the scheduler did."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool

from dally.cluster.formats.hostlist import fold
from dally.live.status import ClusterStatus
from dally.live.store.log_rows import events as stored_events
from dally.web.auth.tokens import Caller
from dally.web.routes.bodies import AlertBody, AlertsBody, EventBody, EventPage, TeamBody, TeamsBody
from dally.web.routes.dependencies import BEARER, AnyCaller, AnySite, answers, is_operator
from dally.web.routes.outlook import Overseer
from dally.web.site import Site

router = APIRouter(prefix="/api/v1", tags=["cluster"], dependencies=[BEARER])


@router.get("/alerts", response_model=AlertsBody, responses=answers())
async def alerts(site: AnySite, caller: AnyCaller) -> AlertsBody:
    """Alerts that fire now, by the rules of contrib/dally-alerts.yaml."""
    return AlertsBody(alerts=await run_in_threadpool(firing, site, caller))


def firing(site: Site, caller: Caller) -> list[AlertBody]:
    """Those that fire; only operators see jobs' and machines' names in them."""
    shown = is_operator(caller)
    return [
        AlertBody.model_validate(asdict(one) | ({} if shown else {"details": ""})) for one in site.alerts.firing()
    ]


@router.get("/queues", response_model=TeamsBody, responses=answers())
async def queues(site: AnySite, caller: Overseer) -> TeamsBody:
    """The queues of teams: guarantees, GPUs held and due, past use; none without a queues file."""
    status = site.status
    return TeamsBody(at_s=status.wall_s, queues=teams(status))


def teams(status: ClusterStatus) -> list[TeamBody]:
    """The queues of that status."""
    return [
        TeamBody.model_validate(asdict(one) | {"borrowed": one.borrowed, "lent": one.lent}) for one in status.teams
    ]


@router.get("/events", response_model=EventPage, responses=answers())
async def events(
    site: AnySite,
    caller: Overseer,
    job_id: Annotated[str | None, Query(max_length=200)] = None,
    kind: Annotated[str | None, Query(max_length=40)] = None,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EventPage:
    """What the scheduler did and what happened, the latest first."""
    return await run_in_threadpool(event_page, site, job_id, kind, offset, limit)


def event_page(
    site: Site, job_id: str | None, kind: str | None, offset: int, limit: int, without: str = ""
) -> EventPage:
    """A page of the event log."""
    service = site.service
    total, rows = stored_events(service.store, job_id, kind, offset, limit, without)
    shown = [
        EventBody(
            id=row["id"], at_s=service.clock.wall_s(row["time_s"]), kind=row["kind"], job_id=row["job_id"] or "",
            machine=row["machine"] or "", tier=row["tier"] or "", machines=",".join(fold(row["placement"] or ())),
            reason=row["reason"],
        )
        for row in rows
    ]  # fmt: skip
    return EventPage(total=total, offset=offset, events=shown)
