"""What is to come: when a job starts, what a submission would get, how well that held; and what would be, if."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from fastapi.concurrency import run_in_threadpool

from dally.errors import InputError
from dally.live.backends.base import Submission
from dally.live.forecast.conformal import CONFIDENCE
from dally.live.forecast.job_forecast import Forecast
from dally.live.forecast.outlook import BusyError, NoEstimateError
from dally.live.forecast.predictions import calibration as kept_calibration
from dally.live.forecast.whatif.from_now import USUAL_EFFORT
from dally.live.forecast.whatif.what_ifs import WhatIfRequest
from dally.live.store.database import StoreError
from dally.live.wall_clock import WallClock
from dally.sweep.whatif.change import Change
from dally.web.auth.tokens import USER, Caller
from dally.web.routes.bodies import (
    CalibrationBody,
    CalibrationDayBody,
    Eta,
    JobRequest,
    OutlookBody,
    TierChanceBody,
    WhatIfBody,
    WhatIfQuestion,
)
from dally.web.routes.dependencies import BEARER, AnyCaller, AnySite, answers, visible
from dally.web.routes.jobs import find, request_of
from dally.web.site import Site

router = APIRouter(prefix="/api/v1", tags=["outlook"], dependencies=[BEARER])


@router.get("/outlook", response_model=OutlookBody, responses=answers())
async def outlook(site: AnySite, caller: AnyCaller) -> OutlookBody:
    """When waiting jobs start, in their order; computed once a minute."""
    result = dict(site.service.outlook.queue)
    lines = [line for line in visible(site.status.jobs, caller) if line.job_id in result]
    return OutlookBody(etas=[eta_of(line.job_id, result[line.job_id], site.service.clock) for line in lines])


@router.get("/jobs/{job_id}/eta", response_model=Eta, responses=answers(404, 409))
async def eta(site: AnySite, caller: AnyCaller, job_id: str) -> Eta:
    """When a waiting job starts, and where."""
    await find(site, caller, job_id)
    return await run_in_threadpool(_estimate, site, job_id, None)


@router.post("/preview", response_model=Eta, responses=answers(400, 409))
async def preview(site: AnySite, caller: AnyCaller, request: JobRequest) -> Eta:
    """The same for a job that is not submitted."""
    return await run_in_threadpool(_estimate, site, "", request_of(site, caller, request))


@router.get("/calibration", response_model=CalibrationBody, responses=answers())
async def calibration(site: AnySite, caller: AnyCaller) -> CalibrationBody:
    """How often what was said held, day by day."""
    service = site.service
    days = await run_in_threadpool(kept_calibration, service.store, service.clock.wall_s)
    return CalibrationBody(confidence=CONFIDENCE, days=[CalibrationDayBody.model_validate(day) for day in days])


def _estimate(site: Site, job_id: str, request: Submission | None) -> Eta:
    """The answer of the futures, or why there is none."""
    service = site.service
    try:
        result = service.outlook.ask(job_id) if request is None else service.outlook.preview(request)
    except NoEstimateError as error:
        raise HTTPException(409, str(error)) from None
    except (BrokenProcessPool, BusyError, StoreError):
        raise HTTPException(503, "estimates cannot be made just now; ask again") from None
    return eta_of(job_id, result, service.clock)


def eta_of(job_id: str, result: Forecast, clock: WallClock) -> Eta:
    """The forecast with times in seconds since 1970."""

    def wall_s(moment_s: float | None) -> float | None:
        return None if moment_s is None else clock.wall_s(moment_s)

    tiers = [
        TierChanceBody(
            tier=one.tier, chance=one.chance, start_s=wall_s(one.start_s), slowdown=one.slowdown, now=one.now
        )
        for one in result.tiers
    ]
    return Eta(
        job_id=job_id, at_s=clock.wall_s(result.at_s), starts_now=result.is_now, low_s=clock.wall_s(result.low_s),
        middle_s=wall_s(result.middle_s), high_s=wall_s(result.high_s), confidence=result.confidence,
        futures=result.futures, seen=result.seen, learnt_from=result.learnt_from,
        calibrated=result.calibrated, tiers=tiers,
        slowdown=result.slowdown, pays_from_s=result.pays_from_s, gpus_now=result.gpus_now,
    )  # fmt: skip


def overseer(caller: AnyCaller) -> Caller:
    """Who asks, if all jobs are his business: the answer names them."""
    if caller.role == USER:
        raise HTTPException(403, "this needs a role that sees all jobs")
    return caller


Overseer = Annotated[Caller, Depends(overseer)]


@router.post("/whatif", status_code=202, response_model=WhatIfBody, responses=answers(400, 409))
async def ask(site: AnySite, caller: Overseer, request: WhatIfQuestion) -> WhatIfBody:
    """Begin to work it out; one at a time. Nothing of the cluster is touched."""
    return await run_in_threadpool(begin_question, site, caller, request)


@router.get("/whatif/{number}", response_model=WhatIfBody, responses=answers(404))
async def see(site: AnySite, caller: Overseer, number: str) -> WhatIfBody:
    """Its progress and its result."""
    return known(site, number)


@router.delete("/whatif/{number}", response_model=WhatIfBody, responses=answers(404))
async def cancel(site: AnySite, caller: Overseer, number: str) -> WhatIfBody:
    """Stop working on it."""
    known(site, number)
    await run_in_threadpool(site.service.whatifs.cancel, number)
    return known(site, number)


def known(site: Site, number: str) -> WhatIfBody:
    """That question."""
    result = site.service.whatifs.find(number)
    if result is None:
        raise HTTPException(404, "no such what-if, or it was too long ago")
    return WhatIfBody.model_validate(result)


def begin_question(site: Site, caller: Caller, question: WhatIfQuestion) -> WhatIfBody:
    """The question, begun; or why it cannot be asked."""
    change = Change(
        question.policy, question.settings, "", question.cluster_delta, question.network, question.network_settings,
        "", tuple(question.quotas),
    )  # fmt: skip
    effort = replace(USUAL_EFFORT, most=question.futures, horizon_s=question.horizon_s)
    request = WhatIfRequest(change, question.start, effort, question.days)
    try:
        result = site.service.whatifs.ask(request, caller.name)
    except InputError as error:
        raise HTTPException(422, str(error)) from None
    except BusyError as error:
        raise HTTPException(409, str(error)) from None
    return WhatIfBody.model_validate(result)
