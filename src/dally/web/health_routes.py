"""Whether the process lives, and whether it does its work."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from dally.web.asking import AnySite, answers
from dally.web.bodies import Health

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=Health, responses=answers())
async def healthz() -> Health:
    """The process lives."""
    return Health(status="alive")


@router.get("/readyz", response_model=Health, responses=answers())
async def readyz(site: AnySite) -> Health:
    """A turn came about lately: the backend answered, and the store was written."""
    if not site.is_ready:
        raise HTTPException(503, "no turn came about lately")
    return Health(status="ready")
