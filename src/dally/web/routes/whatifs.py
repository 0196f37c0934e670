"""What if: another policy, cluster or network for the jobs of now or of the last days, before anything is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from fastapi.concurrency import run_in_threadpool

from dally.errors import InputError
from dally.live.forecast.outlook import BusyError
from dally.live.forecast.whatif.from_now import USUAL_EFFORT
from dally.live.forecast.whatif.what_ifs import WhatIfRequest
from dally.sweep.whatif.change import Change
from dally.web.auth.tokens import USER, Caller
from dally.web.routes.bodies import WhatIf, WhatIfQuestion
from dally.web.routes.dependencies import BEARER, AnyCaller, AnySite, answers
from dally.web.site import Site

router = APIRouter(prefix="/api/v1", tags=["outlook"], dependencies=[BEARER])


def overseer(caller: AnyCaller) -> Caller:
    """Who asks, if all jobs are his business: the answer names them."""
    if caller.role == USER:
        raise HTTPException(403, "what-ifs are for those who see all jobs")
    return caller


Overseer = Annotated[Caller, Depends(overseer)]


@router.post("/whatif", status_code=202, response_model=WhatIf, responses=answers(400, 409))
async def ask(site: AnySite, caller: Overseer, request: WhatIfQuestion) -> WhatIf:
    """Begin to work it out; one at a time. Nothing of the cluster is touched."""
    return await run_in_threadpool(begin_question, site, caller, request)


@router.get("/whatif/{number}", response_model=WhatIf, responses=answers(404))
async def see(site: AnySite, caller: Overseer, number: str) -> WhatIf:
    """How far it is, and what came of it."""
    return known(site, number)


@router.delete("/whatif/{number}", response_model=WhatIf, responses=answers(404))
async def cancel(site: AnySite, caller: Overseer, number: str) -> WhatIf:
    """Stop working on it."""
    known(site, number)
    await run_in_threadpool(site.service.whatifs.cancel, number)
    return known(site, number)


def known(site: Site, number: str) -> WhatIf:
    """That question."""
    result = site.service.whatifs.find(number)
    if result is None:
        raise HTTPException(404, "nobody asked that what-if, or too long ago")
    return WhatIf.model_validate(result)


def begin_question(site: Site, caller: Caller, question: WhatIfQuestion) -> WhatIf:
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
    return WhatIf.model_validate(result)
