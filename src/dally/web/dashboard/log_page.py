"""The log: what people said that stands, and who did what, when and why."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from dally.live.overrides import FIRST, HOLD, PATIENCE, TIMER
from dally.report.time_text import span
from dally.web.auth.tokens import Caller
from dally.web.dashboard.templating import page
from dally.web.routes.acts import action_page
from dally.web.routes.dependencies import AnyCaller, AnySite
from dally.web.site import Site

ROWS: Final = 50  # on one page
BACK: Final = {HOLD: "release", FIRST: "priority", PATIENCE: "patience", TIMER: "timer"}  # what takes it back

router = APIRouter(include_in_schema=False)


class Standing(NamedTuple):
    """Something that somebody said, and that holds until it is taken back."""

    message: str
    by: str
    at_s: float  # since 1970
    job_id: str  # empty: it is about gangs of a size
    back: str  # the address of the dialog that takes it back


@router.get("/log")
async def log(
    request: Request,
    site: AnySite,
    caller: AnyCaller,
    at_page: Annotated[int, Query(ge=1, le=100_000, alias="page")] = 1,
) -> HTMLResponse:
    """The page; when htmx asks, what changes of it alone."""
    result = await run_in_threadpool(action_page, site, caller, None, None, ROWS * (at_page - 1), ROWS)
    pages = max(1, -(-result.total // ROWS))
    template = "_log.html" if "hx-request" in request.headers else "log.html"
    return page(
        request, caller, template, rows=result.actions, total=result.total, at_page=at_page, pages=pages,
        standing=standing(site, caller),
    )  # fmt: skip


def standing(site: Site, caller: Caller) -> list[Standing]:
    """What stands, as far as it is the caller's business."""
    scheduler = site.service.daemon.scheduler
    if scheduler is None:
        return []
    lines = site.status.by_id
    overrides, clock = scheduler.overrides, site.service.clock
    record = {
        HOLD: "is on hold",
        FIRST: "is first in line",
        PATIENCE: "is told how long to hold out for a closer place",
    }
    result = []
    for kind, said in record.items():
        for job_id, override in overrides.of(kind).items():
            line = lines.get(job_id)
            if line is not None and caller.sees(line.spec.user):
                back = f"{BACK[kind]}/{quote(job_id, safe='')}"
                result.append(Standing(said, override.by(), clock.wall_s(override.at_s), job_id, back))
    for gpus, override in overrides.of(TIMER).items() if caller.sees("") else ():
        waits = (
            f"hold out for a closer place for {span(override.value)}" if override.value > 0.0 else "take any place"
        )
        said = f"Gangs of {gpus} GPUs {waits}"
        result.append(Standing(said, override.by(), clock.wall_s(override.at_s), "", f"{BACK[TIMER]}/{gpus}"))
    return result
