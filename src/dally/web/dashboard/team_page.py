"""The queues of teams, and the banner of alerts that every page of a live cluster has."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from dally.web.dashboard.templating import page
from dally.web.routes.dependencies import AnyCaller, AnySite
from dally.web.routes.outlook import Overseer
from dally.web.routes.overview import teams

router = APIRouter(include_in_schema=False)


@router.get("/teams")
async def team_page(request: Request, site: AnySite, caller: Overseer) -> HTMLResponse:
    """The page; when htmx asks, what changes of it alone."""
    status = site.status
    template = "_teams.html" if "hx-request" in request.headers else "teams.html"
    return page(request, caller, template, status.cycle, teams=teams(status))


@router.get("/alerts")
async def alert_banner(request: Request, caller: AnyCaller) -> HTMLResponse:
    """The banner alone."""
    return page(request, caller, "_alerts.html")
