"""Advice before a job is submitted, from jobs that have ended here; it is part of the answer to a submission."""

from __future__ import annotations

from typing import Annotated

import structlog
from fastapi import APIRouter, HTTPException, Query
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from dally.job_spec import JobSpec
from dally.live.store.database import StoreError
from dally.report.advice import FEWEST, ScriptRequest, shape_line
from dally.web.routes.bodies import Body, Gpus, Name, Seconds, Text
from dally.web.routes.dependencies import BEARER, AnyCaller, AnySite, answers
from dally.web.site import Site

log = structlog.get_logger("dally")
router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[BEARER])


class AdviceBody(Body):
    """What earlier jobs say of one that is not submitted."""

    alike: int = Field(description="Earlier jobs of this user, name and size.")
    expected_s: dict[str, float] = Field(description="Seconds that it runs, by quantile; empty: nothing is known.")
    limit_used: float | None = Field(description="Share of their time limits that the latest such jobs used.")
    failed: list[Text] = Field(description="Which of the latest such jobs did not end well.")
    slowdowns: dict[str, float] = Field(description="At each tier, alone; empty without a network.")
    lines: list[Text] = Field(description="The same as sentences.")


@router.get("/advice", response_model=AdviceBody, responses=answers())
async def advice(
    site: AnySite,
    caller: AnyCaller,
    gpus: Annotated[Gpus, Query()],
    user: Annotated[Name, Query(description="Whose job it is; empty: the caller's.")] = "",
    name: Annotated[Name, Query()] = "",
    model: Annotated[Name, Query()] = "",
    limit_s: Annotated[Seconds | None, Query()] = None,
) -> AdviceBody:
    """What earlier jobs of this user, name and size say of such a job."""
    if user and not caller.sees(user):
        raise HTTPException(403, f"you see jobs of {caller.user!r} only")
    request = ScriptRequest(user or caller.user, name, gpus, limit_s, model)
    return await run_in_threadpool(_advice, site, request)


def _advice(site: Site, request: ScriptRequest) -> AdviceBody:
    result, slowdowns = site.service.past.advise(request), site.slowdowns(request.model, request.gpus)
    lines = [*result.lines(request), *_shape(request, slowdowns)]
    return AdviceBody(**result.plain(), slowdowns=slowdowns, lines=lines)


def advice_lines(site: Site, spec: JobSpec) -> list[str]:
    """What to say of a job that was submitted; the job is in, so a store that cannot be read says nothing."""
    request = ScriptRequest(spec.user, spec.name, spec.gpus, spec.limit_s, spec.model)
    lines: list[str] = []
    try:
        past = site.service.past.advise(request)
        lines = past.lines(request) if past.alike >= FEWEST else []
    except StoreError as error:
        log.warning("no_advice", why=str(error))
    return [*lines, *_shape(request, site.slowdowns(spec.model, spec.gpus))]


def _shape(request: ScriptRequest, slowdowns: dict[str, float]) -> list[str]:
    line = shape_line(request, slowdowns)
    return [line] if line else []
