"""What is to come: when a job starts, what a submission would get, and how well such estimates held."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from dally.web.asking import BEARER, AnyCaller, AnySite, answers
from dally.web.bodies import Problem, Submission
from dally.web.queue_routes import find

router = APIRouter(prefix="/api/v1", tags=["outlook"], dependencies=[BEARER])
NOT_YET = "this server makes no estimates"


@router.get("/jobs/{job_id}/eta", response_model=Problem, responses=answers(404, 501))
async def eta(site: AnySite, caller: AnyCaller, job_id: str) -> Problem:
    """When a waiting job starts, and where."""
    await find(site, caller, job_id)
    raise HTTPException(501, NOT_YET)


@router.post("/preview", response_model=Problem, responses=answers(400, 501))
async def preview(site: AnySite, caller: AnyCaller, asked: Submission) -> Problem:
    """The same for a job that is not submitted."""
    raise HTTPException(501, NOT_YET)


@router.get("/calibration", response_model=Problem, responses=answers(501))
async def calibration(site: AnySite, caller: AnyCaller) -> Problem:
    """How often what was said held."""
    raise HTTPException(501, NOT_YET)
