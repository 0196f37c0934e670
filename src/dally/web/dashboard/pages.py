"""The pages put into an application, and what they say when something is wrong."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from dally.web.dashboard import asset_routes, job_page, map_page, queue_page, trend_page
from dally.web.dashboard.event_streams import Streams
from dally.web.dashboard.scene import Scene
from dally.web.dashboard.templating import page
from dally.web.routes.dependencies import caller_of


def add_pages(app: FastAPI, scene: Scene) -> None:
    """All pages that any scene has."""
    app.state.scene = scene
    app.state.streams = Streams(scene)
    for module in (asset_routes, map_page, queue_page, job_page, trend_page):
        app.include_router(module.router)


def is_page(request: Request) -> bool:
    """Whether a person reads the answer."""
    return "text/html" in request.headers.get("accept", "") and hasattr(request.state, "caller")


def problem_page(request: Request, status: int, problem: str) -> HTMLResponse:
    """What is wrong, with the way back."""
    answer = page(request, caller_of(request), "problem.html", problem=problem)
    answer.status_code = status
    return answer
