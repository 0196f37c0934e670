"""The list of jobs with filters, and the page of one job; htmx puts rows in place that the server makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from dally.live.job_status import JobStatus
from dally.live.status import NOT_OFFERED, ClusterStatus
from dally.web.auth.tokens import Caller
from dally.web.dashboard.scene import Scene
from dally.web.dashboard.templating import moment_of, page, scene_of
from dally.web.routes.bodies import JobBody
from dally.web.routes.dependencies import AnyCaller, visible

ROWS: Final = 50  # on one page
MOST_PAGES: Final = 100_000
MOST_ENDED: Final = 2000  # that are looked through
TABS: Final = ("waiting", "running", "held", "ended")
SIZES: Final = {"": (1, 1 << 40), "1": (1, 1), "2-8": (2, 8), "9-32": (9, 32), "33-": (33, 1 << 40)}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Filters:
    """What the reader asked for."""

    tab: str = "waiting"
    search: str = ""
    user: str = ""
    model: str = ""
    size: str = ""
    page: int = 1

    @property
    def offset(self) -> int:
        """How many come before the page."""
        return (self.page - 1) * ROWS

    def fits(self, line: JobStatus | JobBody) -> bool:
        """Whether the job is to be shown."""
        least, most = SIZES[self.size]
        parts = f"{line.job_id} {line.spec.name} {line.spec.user} {line.spec.model} {line.spec.account}".lower()
        return (
            least <= line.spec.gpus <= most
            and (not self.user or line.spec.user == self.user)
            and (not self.model or line.spec.model == self.model)
            and all(token in parts for token in self.search.lower().split())
        )


@router.get("/queue")
async def queue_page(
    request: Request, caller: AnyCaller, tab: str = "waiting", q: Annotated[str, Query(max_length=200)] = "",
    user: str = "", model: str = "", size: str = "", page_number: Annotated[int, Query(alias="page")] = 1,
) -> HTMLResponse:  # fmt: skip
    """The page; when htmx asks, its rows alone."""
    requested = Filters(
        tab if tab in TABS else TABS[0], q, user, model, size if size in SIZES else "",
        min(max(1, page_number), MOST_PAGES),
    )  # fmt: skip
    scene, at_s = scene_of(request), moment_of(request)
    result = await run_in_threadpool(_rows, scene, caller, requested, at_s)
    template = "_queue_rows.html" if "hx-request" in request.headers else "queue.html"
    phase = result["status"].cycle
    return page(request, caller, template, phase, sizes=SIZES, tabs=TABS, **result)


def _rows(scene: Scene, caller: Caller, request: Filters, at_s: float | None) -> dict[str, Any]:
    status = scene.status(at_s)
    lines = visible(status.jobs, caller)
    if request.tab == "ended":
        total, jobs = _ended(scene, caller, request, at_s)
        pages = pages_of(total)
        if request.page > pages:  # the list was longer
            request = replace(request, page=pages)
            total, jobs = _ended(scene, caller, request, at_s)
        rows: list[dict[str, Any]] = [{"job": job} for job in jobs]
    else:
        fitting = [line for line in lines if tab_of(line) == request.tab and request.fits(line)]
        total, pages = len(fitting), pages_of(len(fitting))
        request = replace(request, page=min(request.page, pages))
        rows = [_row(scene, status, line) for line in fitting[request.offset : request.offset + ROWS]]
    tallies = {tab: sum(tab_of(line) == tab for line in lines) for tab in TABS if tab != "ended"}
    return {
        "filters": request,
        "status": status,
        "rows": rows,
        "total": total,
        "first": request.offset + 1,
        "pages": pages,
        "tallies": tallies,
        "users": sorted(({line.spec.user for line in lines} | {request.user}) - {""}),
        "models": sorted(({line.spec.model for line in lines} | {request.model}) - {""}),
    }


def _ended(scene: Scene, caller: Caller, request: Filters, at_s: float | None) -> tuple[int, list[JobBody]]:
    """How many fit, and a page of them; filters but the user's look at the latest only."""
    offset = request.offset
    if not (request.search or request.model or request.size):
        return scene.ended(caller, request.user, offset, ROWS, at_s)
    _, jobs = scene.ended(caller, request.user, 0, MOST_ENDED, at_s)
    fitting = [job for job in jobs if request.fits(job)]
    return len(fitting), fitting[offset : offset + ROWS]


def pages_of(total: int) -> int:
    """How many pages so many rows fill."""
    return max(1, -(-total // ROWS))


def tab_of(line: JobStatus | JobBody) -> str:
    """Where the job is shown."""
    if line.placement or line.state in ("starting", "stopping"):
        return "running"
    if line.state in NOT_OFFERED:
        return "held"
    return line.state if line.state in TABS else "ended"


def _row(scene: Scene, status: ClusterStatus, line: JobStatus) -> dict[str, Any]:
    return {
        "job": line,
        "waited_s": max(0.0, status.wall_s - line.since_s) * scene.speed,
        "slowdowns": scene.slowdowns(line.job_id, line.spec.model, line.spec.gpus),
        "eta": scene.eta(line.job_id) if line.place is not None else None,
    }


@router.get("/jobs/{job_id:path}")
async def job_page(request: Request, caller: AnyCaller, job_id: str) -> HTMLResponse:
    """The page; when htmx asks, what changes of it alone."""
    scene, at_s = scene_of(request), moment_of(request)
    status = scene.status(at_s)
    job = await run_in_threadpool(scene.find, caller, job_id, at_s)
    if job is None:
        return _later(request, caller, job_id)
    record = await run_in_threadpool(scene.explanation, caller, job, at_s)
    template = "_job.html" if "hx-request" in request.headers else "job.html"
    return page(
        request, caller, template, status.cycle, job=job, explained=record, eta=scene.eta(job_id), status=status,
        spent=record.spent, tab=tab_of(job),
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
