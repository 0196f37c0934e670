"""The pages and their assets put into an application, and what they say when something is wrong."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse

from dally.web.dashboard import map_page, queue_page, trend_page
from dally.web.dashboard.event_streams import Streams
from dally.web.dashboard.scene import Scene
from dally.web.dashboard.templating import asset, page
from dally.web.routes.dependencies import caller_of

KINDS: Final = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "txt": "text/plain"}
FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}

router = APIRouter(include_in_schema=False)


@router.get("/assets/{version}/{name:path}")
async def one_asset(version: str, name: str) -> Response:
    """A file; its version is there for browsers only."""
    result = asset(name)
    if result is None:
        raise HTTPException(404, f"{name!r}: there is no such file")
    kind = KINDS.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(result, media_type=kind, headers=FOR_EVER)


def add_pages(app: FastAPI, scene: Scene) -> None:
    """All pages that any scene has."""
    app.state.scene = scene
    app.state.streams = Streams(scene)
    for each in (router, map_page.router, queue_page.router, trend_page.router):
        app.include_router(each)


def is_page(request: Request) -> bool:
    """Whether a person reads the answer."""
    return "text/html" in request.headers.get("accept", "") and hasattr(request.state, "caller")


def problem_page(request: Request, status: int, problem: str) -> HTMLResponse:
    """What is wrong, with the way back."""
    answer = page(request, caller_of(request), "problem.html", problem=problem)
    answer.status_code = status
    return answer
