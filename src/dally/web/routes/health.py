"""Whether the process lives, and whether it does its work."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, HTTPException, Response
from fastapi.concurrency import run_in_threadpool
from prometheus_client import CONTENT_TYPE_LATEST

from dally.web.routes.bodies import Health
from dally.web.routes.dependencies import BEARER, AnyCaller, AnySite, answers

router = APIRouter(tags=["health"])
TEXT: Final[dict[str, Any]] = {"description": "Metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get("/healthz", response_model=Health, responses=answers())
async def healthz() -> Health:
    """The process lives."""
    return Health(status="alive")


@router.get("/readyz", response_model=Health, responses=answers())
async def readyz(site: AnySite) -> Health:
    """A cycle came about lately: the backend answered, and the store was written."""
    if not site.is_ready:
        part = site.service.daemon.failing_part
        raise HTTPException(503, f"no cycle came about lately{f': the {part} fails' if part else ''}")
    return Health(status="ready")


@router.get("/metrics", dependencies=[BEARER], responses={**answers(), 200: TEXT})
async def metrics(site: AnySite, caller: AnyCaller) -> Response:
    """For Prometheus: no names of jobs or users."""
    return Response(await run_in_threadpool(site.metrics.page), media_type=CONTENT_TYPE_LATEST)
