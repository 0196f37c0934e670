"""What jobs, or whoever watches them, say of their progress through the API."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from pydantic import Field

from dally.progress.report_file import MOST_STEPS
from dally.web.routes.acts import live_job
from dally.web.routes.bodies import Body
from dally.web.routes.dependencies import BEARER, AnyActor, AnySite, answers


class StatedProgress(Body):
    """How far a running job is."""

    step: int = Field(ge=0, le=MOST_STEPS, description="Steps done, of the whole run.")
    total: int | None = Field(default=None, ge=1, le=MOST_STEPS, description="How many there are.")


router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[BEARER])


@router.put(
    "/jobs/{job_id}/progress", status_code=202, response_model=StatedProgress, responses=answers(400, 404, 409)
)
async def state_progress(site: AnySite, caller: AnyActor, job_id: str, request: StatedProgress) -> StatedProgress:
    """Say how far a running job is; it counts from the next cycle on, instead of what the job prints."""
    if request.total is not None and request.step > request.total:
        raise HTTPException(422, f"step: {request.step}: must be at most total, {request.total}")
    result = await live_job(site, caller, job_id)
    if result.state != "running":
        raise HTTPException(409, f"job {job_id!r} does not run: it is {result.state}")
    scheduler = site.service.daemon.scheduler
    if scheduler is None:
        raise HTTPException(503, "the scheduler is about to start: ask again")
    scheduler.progress.put(job_id, request.step, request.total)
    return request
