"""Jobs: who waits and runs, one of them, what happened to it and why it waits, and submitting."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Final, get_args

import polars as pl
import structlog
from fastapi import APIRouter, HTTPException, Query, Response
from fastapi.concurrency import run_in_threadpool

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.acts import Acts
from dally.live.backends.base import Submission
from dally.live.facts import known_model
from dally.live.history.live_record import LiveRecord
from dally.live.job_status import UNSCHEDULABLE
from dally.live.root_jobs import why_refused
from dally.live.status import ClusterStatus
from dally.metrics.record import Record
from dally.report.explanation.job_timeline import Explainer
from dally.report.explanation.size_spans import size_spans
from dally.sizes import read_sizes
from dally.web.auth.tokens import USER, Caller
from dally.web.routes.bodies import (
    AnyState,
    EndState,
    Explanation,
    HistoryEntry,
    JobBody,
    JobPage,
    JobRequest,
    Spent,
    Submitted,
    job_body,
)
from dally.web.routes.dependencies import (
    BEARER,
    AnyActor,
    AnyCaller,
    AnySite,
    answers,
    between_cycles,
    json_of,
    scope_of,
    visible,
)
from dally.web.routes.job_advice import advice_lines
from dally.web.routes.size_entries import size_entries
from dally.web.site import Site, ended_jobs, visible_user

VISIBLE_WITHIN_S: Final = 2.0  # a job that was submitted is there for all to see

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[BEARER])
log = structlog.get_logger("dally")


@router.get("/jobs", response_model=JobPage, responses=answers())
async def jobs(
    site: AnySite,
    caller: AnyCaller,
    state: Annotated[AnyState | None, Query(description="Only these; without: all that have not ended.")] = None,
    user: Annotated[str | None, Query(max_length=200, description="Only jobs of this user.")] = None,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The queue in its order, then the jobs that run; or those that ended so, the latest first."""
    status = site.status
    if state is not None and state in get_args(EndState):
        total, rows = await run_in_threadpool(
            ended_jobs, site.service.store, site.service.clock, site.service.topology.tiers, state,
            visible_user(caller, user), offset, limit,
        )  # fmt: skip
        page = JobPage(at_s=status.wall_s, total=total, offset=offset, jobs=rows)
        return json_of(page.model_dump_json().encode())
    key = ("jobs", *scope_of(caller), state, user, offset, limit)
    return json_of(site.page(status, key, lambda: _page(status, caller, state, user, offset, limit)))


def _page(
    status: ClusterStatus, caller: Caller, state: str | None, user: str | None, offset: int, limit: int
) -> JobPage:
    lines = [
        line
        for line in visible(status.jobs, caller)
        if (state is None or line.state == state) and (user is None or line.spec.user == user)
    ]
    shown = [job_body(line) for line in lines[offset : offset + limit]]
    return JobPage(at_s=status.wall_s, total=len(lines), offset=offset, jobs=shown)


@router.get("/jobs/{job_id}", response_model=JobBody, responses=answers(404))
async def job(site: AnySite, caller: AnyCaller, job_id: str) -> Response:
    """One job, ended or not."""
    result = await find(site, caller, job_id)
    return json_of(result.model_dump_json().encode())


async def find(site: Site, caller: Caller, job_id: str) -> JobBody:
    """The job, if there is one and the caller may see it; otherwise one answer for both."""
    here = job_id in site.status.by_id  # the store is asked beside other requests
    result = site.job(caller, job_id) if here else await run_in_threadpool(site.job, caller, job_id)
    if result is None:
        raise HTTPException(404, f"job {job_id!r}: there is no such job")
    return result


@router.post("/jobs", status_code=201, response_model=Submitted, responses=answers(400, 409))
async def submit(site: AnySite, caller: AnyActor, requested: JobRequest) -> Submitted:
    """Take in a job; when this answers, it is in the queue."""
    request = request_of(site, caller, requested)
    if not request.command and request.spec.duration_s is None:
        raise HTTPException(422, "command: must be given, or duration_s for a job that only takes time")
    refused = why_refused(site.service.config, request.spec.user, caller.uid)
    if refused:
        raise HTTPException(403, refused)
    job_id = await between_cycles(lambda: Acts(site.service).submit(request))
    log.info(
        "submitted", job_id=job_id, gpus=request.spec.gpus, by=caller.name or "anybody", user=request.spec.user
    )
    until = time.monotonic() + VISIBLE_WITHIN_S
    while job_id not in site.status.by_id and time.monotonic() < until:
        await asyncio.sleep(0.02)
    notes = (model_note(request.spec.model, site.service.config.setup.usual_model), sizes_note(site, request.spec))
    advice = await run_in_threadpool(advice_lines, site, request.spec)
    return Submitted(job_id=job_id, note="; ".join(filter(None, notes)), advice=advice)


def sizes_note(site: Site, spec: JobSpec) -> str:
    """Why a job has no other sizes than the one that it asks for; empty: it states none, or has them."""
    if not spec.sizes or site.service.backend.resizes:
        return ""
    return f"sizes {spec.sizes!r} have no effect: the job runs on the GPUs that it asks for"


def model_note(model: str, usual: str) -> str:
    """What becomes of a model that has no profile; empty: it has one, or none is stated."""
    if not model or known_model(model, ""):
        return ""
    instead = f"a {usual}" if usual else "one without a model"
    return f"model {model!r} has no profile: the job is scheduled as {instead}; `dally models` lists those with one"


def request_of(site: Site, caller: Caller, request: JobRequest) -> Submission:
    """The job that the caller asks for, if it fits the cluster and is the caller's to ask for."""
    gpus = site.service.topology.total_gpus()
    spec = request.spec
    if spec.gpus > gpus:
        raise HTTPException(422, f"gpus: {spec.gpus}: the cluster has {gpus}")
    try:
        read_sizes(spec.sizes, spec.gpus, spec.group)
    except InputError as error:
        raise HTTPException(422, str(error)) from None
    if caller.role == USER and spec.user not in ("", caller.user):
        raise HTTPException(403, f"you submit for {caller.user!r} only: submitting for others is for operators")
    spec = replace(spec, user=spec.user or caller.user)
    return Submission(spec, tuple(request.command), request.folder, dict(request.environment))


@router.get("/jobs/{job_id}/explanation", response_model=Explanation, responses=answers(404))
async def explanation(site: AnySite, caller: AnyCaller, job_id: str) -> Response:
    """What happened to a job so far, why it waits, and how fast it would be where."""
    job = await find(site, caller, job_id)
    status = site.status

    def made() -> bytes:
        with site.one_at_a_time:  # they take their time: others need not wait for several
            return site.page(status, ("explanation", *scope_of(caller), job_id), lambda: explain(site, caller, job))

    return json_of(await run_in_threadpool(made))


def explain(site: Site, caller: Caller, job: JobBody) -> Explanation:
    """The explanation of a job as the caller may see it."""
    service = site.service
    if job.state == UNSCHEDULABLE:  # the store has nothing of it
        waited_s = (site.status.wall_s - job.submit_s) * service.clock.speed
        spent = Spent(waiting_s=max(0.0, waited_s), useful_s=0.0, network_s=0.0, other_s=0.0)
        return Explanation(job=job, history=[], slowdowns={}, spent=spent)
    record = LiveRecord(
        service.store, service.clock, service.topology, service.config.setup, job.job_id, service.clock.now()
    )
    if not caller.sees(""):
        record.hide(lambda job_id: job_id == job.job_id)
    explainer = Explainer(record)
    entries = explainer.history(job.job_id)
    spans = size_spans(explainer.timeline.course, explainer.timeline.numbers[job.job_id], service.clock.now())
    history = [
        HistoryEntry(at_s=service.clock.wall_s(entry.time_s), kind=entry.kind, text=entry.text) for entry in entries
    ]
    model, origin = site.taken_for(job.job_id, job.spec.model)
    return Explanation(
        job=job, history=history, slowdowns=site.slowdowns(model, job.spec.gpus), spent=spent_of(record, job),
        slowdowns_from=f"taken for {model}: {origin}" if origin else "",
        sizes=size_entries(job.spec.sizes, spans, service.clock.wall_s),
    )  # fmt: skip


def spent_of(record: Record, job: JobBody) -> Spent:
    """Where the job's time went. Its clocks stand at the last change of its speed: since then it went on at it."""
    row = record.jobs.row(by_predicate=pl.col("job_id") == job.job_id, named=True)
    settled_s = row["compute_s"] + row["comm_s"]
    more_s = max(0.0, job.work_s - (settled_s / row["slowdown"] if row["slowdown"] else 0.0))
    worked_s = settled_s + more_s * (job.slowdown or 1.0)
    return Spent(
        waiting_s=row["queue_s"],
        useful_s=job.work_s,
        network_s=max(0.0, worked_s - job.work_s),
        other_s=max(0.0, row["run_s"] - worked_s),
    )
