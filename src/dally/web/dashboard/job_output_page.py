"""The pieces of a job's page that take their time: what it prints, and how busy its GPUs are."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from dally.web.dashboard.templating import page
from dally.web.routes.dependencies import AnyCaller, AnySite
from dally.web.routes.job_output import USUAL_LINES, output_of, utilization_of
from dally.web.routes.jobs import find

SHOWN = 8  # machines of the table

router = APIRouter(include_in_schema=False)


@router.get("/job-output/{job_id:path}")
async def job_output(
    request: Request, site: AnySite, caller: AnyCaller, job_id: str, seen: Annotated[str, Query(max_length=64)] = ""
) -> Response:
    """Both, as far as the caller may see them; status 204: nothing is new, and the page stays as it is."""
    job = await find(site, caller, job_id)
    used = await run_in_threadpool(utilization_of, site, caller, job)
    printed = None
    if caller.may_touch(job.spec.user):
        printed = await run_in_threadpool(output_of, site, job, USUAL_LINES)
    version = sha256(f"{printed} {used}".encode("utf-8", "replace")).hexdigest()[:16]
    if version == seen:
        return Response(status_code=204)
    known = used if used.machines or site.utilization.source.url else None
    return page(
        request, caller, "_job_output.html", job=job, printed=printed, used=known, shown=SHOWN, version=version
    )
