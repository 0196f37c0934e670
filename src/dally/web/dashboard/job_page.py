"""A job: how it stands, what it is to expect, where its time went, and its whole story."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from dally.web.auth.tokens import Caller
from dally.web.dashboard.queue_page import tab_of
from dally.web.dashboard.templating import moment_of, page, scene_of
from dally.web.routes.dependencies import AnyCaller

router = APIRouter(include_in_schema=False)


@router.get("/jobs/{job_id:path}")
async def job_page(request: Request, caller: AnyCaller, job_id: str) -> HTMLResponse:
    """The page; when htmx asks, what changes of it alone."""
    scene, at_s = scene_of(request), moment_of(request)
    status = scene.status(at_s)
    job = await run_in_threadpool(scene.find, caller, job_id, at_s)
    if job is None:
        return _later(request, caller, job_id)
    told = await run_in_threadpool(scene.explanation, caller, job, at_s)
    template = "_job.html" if "hx-request" in request.headers else "job.html"
    return page(
        request, caller, template, status.cycle, job=job, told=told, eta=scene.eta(job_id), status=status,
        spent=told.spent, tab=tab_of(job),
    )  # fmt: skip


def _later(request: Request, caller: Caller, job_id: str) -> HTMLResponse:
    """In a replay a job that is submitted after the moment shown; else there is none."""
    scene = scene_of(request)
    submit_s = scene.submitted_s(job_id)
    if submit_s is None:
        raise HTTPException(404, f"job {job_id!r}: there is no such job")
    template = "_job_later.html" if "hx-request" in request.headers else "job_later.html"
    submitted = scene.moment(scene.status(submit_s).wall_s)
    return page(request, caller, template, job_id=job_id, submit_s=submit_s, submitted=submitted)
