"""A job: how it stands, what it is to expect, where its time went, and its whole story."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from dally.web.asking import AnyCaller
from dally.web.dashboard.templating import moment_of, page, scene_of

router = APIRouter(include_in_schema=False)


@router.get("/jobs/{job_id}")
async def job_page(request: Request, caller: AnyCaller, job_id: str) -> HTMLResponse:
    """The page; when htmx asks, what changes of it alone."""
    scene, at_s = scene_of(request), moment_of(request)
    job = await run_in_threadpool(scene.find, caller, job_id, at_s)
    if job is None:
        raise HTTPException(404, f"job {job_id!r}: there is no such job")
    told = await run_in_threadpool(scene.explanation, caller, job, at_s)
    template = "_job.html" if "hx-request" in request.headers else "job.html"
    return page(
        request, caller, template, job=job, told=told, eta=scene.eta(job_id), board=scene.board(at_s),
        spent=told.spent,
    )  # fmt: skip
