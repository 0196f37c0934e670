"""The map of the cluster, its data, and the stream of what changes."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, StreamingResponse

from dally.web.dashboard.event_streams import Streams
from dally.web.dashboard.map_data import map_state, tree
from dally.web.dashboard.templating import moment_of, page, scene_of
from dally.web.routes.dependencies import AnyCaller, json_of

router = APIRouter(include_in_schema=False)


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
