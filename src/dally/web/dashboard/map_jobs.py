"""The jobs beside the map: those that run, the largest first, and those that wait, in the queue's order."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from dally.live.job_status import JobStatus
from dally.web.auth.tokens import Caller
from dally.web.dashboard.queue_page import tab_of
from dally.web.dashboard.scene import Scene
from dally.web.dashboard.templating import moment_of, page, scene_of
from dally.web.routes.dependencies import AnyCaller, visible

LISTED: Final = 20  # jobs of a list; the page of jobs has all

router = APIRouter(include_in_schema=False)


@router.get("/map/jobs")
async def map_jobs(request: Request, caller: AnyCaller) -> HTMLResponse:
    """The piece of the page, which htmx asks for."""
    result = await run_in_threadpool(_lists, scene_of(request), caller, moment_of(request))
    return page(request, caller, "_map_jobs.html", result["status"].cycle, **result)


def _lists(scene: Scene, caller: Caller, at_s: float | None) -> dict[str, Any]:
    status = scene.status(at_s)
    lines = visible(status.jobs, caller)
    running = sorted((line for line in lines if tab_of(line) == "running"), key=_largest_first)
    waiting = [line for line in lines if tab_of(line) == "waiting"]
    return {
        "status": status,
        "running": running[:LISTED],
        "waiting": waiting[:LISTED],
        "totals": {"running": len(running), "waiting": len(waiting)},
    }


def _largest_first(line: JobStatus) -> tuple[int, float]:
    return -line.spec.gpus, line.since_s
