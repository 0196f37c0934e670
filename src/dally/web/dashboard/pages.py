"""The map, and all pages and their assets put into an application; what they say when something is wrong."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, StreamingResponse

from dally.web.dashboard import map_jobs, queue_page, trend_page
from dally.web.dashboard.event_streams import Streams, map_state, tree
from dally.web.dashboard.scene import Scene
from dally.web.dashboard.templating import asset, moment_of, page, scene_of
from dally.web.routes.dependencies import AnyCaller, caller_of, json_of

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
    for each in (router, map_jobs.router, queue_page.router, trend_page.router):
        app.include_router(each)


def is_page(request: Request) -> bool:
    """Whether a person reads the answer."""
    return "text/html" in request.headers.get("accept", "") and hasattr(request.state, "caller")


def problem_page(request: Request, status: int, problem: str) -> HTMLResponse:
    """What is wrong, with the way back."""
    answer = page(request, caller_of(request), "problem.html", problem=problem)
    answer.status_code = status
    return answer


@router.get("/")
async def map_page(request: Request, caller: AnyCaller) -> HTMLResponse:
    """The page."""
    return page(request, caller, "map.html")


@router.get("/map/tree.json")
async def map_tree(request: Request, caller: AnyCaller) -> Response:
    """What hangs under what."""
    return _compact(tree(scene_of(request)))


@router.get("/map/state.json")
async def state(request: Request, caller: AnyCaller) -> Response:
    """Who sits where."""
    scene, at_s = scene_of(request), moment_of(request)
    return _compact((await run_in_threadpool(map_state, scene, caller, at_s)).to_json(scene.boot))


@router.get("/events")
async def events(request: Request, caller: AnyCaller) -> StreamingResponse:
    """What changes, as it does."""
    streams: Streams = request.app.state.streams
    return StreamingResponse(
        streams.listen(caller, request.state.known),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


def _compact(body: dict[str, Any]) -> Response:
    return json_of(json.dumps(body, separators=(",", ":")).encode())
