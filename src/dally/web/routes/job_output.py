"""What a job prints, and how busy its GPUs are, as far as anything is known of that."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, HTTPException, Query
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from dally.live.backends.base import HasProgress
from dally.live.gpu_utilization import LATELY_MINUTES
from dally.live.log_end import printed, read_end
from dally.live.prometheus import PrometheusError
from dally.web.auth.tokens import Caller
from dally.web.routes.bodies import Body, JobBody, Text
from dally.web.routes.dependencies import BEARER, AnyCaller, AnySite, answers, is_operator
from dally.web.routes.jobs import find
from dally.web.site import Site

MOST_LINES: Final = 200
USUAL_LINES: Final = 50

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[BEARER])
log = structlog.get_logger("dally")


class OutputBody(Body):
    """The end of what a job printed."""

    job_id: Text
    lines: list[Text]
    why: str = Field(description="Why there are none; empty: there are.")


class MachineUse(Body):
    """GPUs of a machine: per cent of the time that they are busy; null: not known."""

    machine: Text
    now: float | None
    lately: float | None


class UtilizationBody(Body):
    """How busy the GPUs are, as Prometheus says; machines in the order of `lately`, the least busy first."""

    job_id: Text
    minutes: int = Field(description="Of which `lately` is the mean.")
    now: float | None = Field(description="The mean over the job's GPUs.")
    lately: float | None
    shared: bool = Field(description="GPUs of other jobs on the same machines count too.")
    machines: list[MachineUse]
    why: Text = Field(description="Why there are none; empty: there are.")


@router.get("/jobs/{job_id}/output", response_model=OutputBody, responses=answers(404))
async def output(
    site: AnySite, caller: AnyCaller, job_id: str, lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = USUAL_LINES
) -> OutputBody:
    """The end of what a job printed: for its user and for operators, as files of users are theirs."""
    job = await find(site, caller, job_id)
    if not caller.may_touch(job.spec.user):
        raise HTTPException(403, f"what job {job_id!r} prints is for its user and for operators")
    return await run_in_threadpool(output_of, site, job, lines)


def output_of(site: Site, job: JobBody, lines: int) -> OutputBody:
    """The end of its log, or why there is none."""
    service = site.service
    scheduler = service.daemon.scheduler
    source = scheduler.progress.source_of(job.job_id) if scheduler is not None else None
    if not isinstance(service.backend, HasProgress):
        return OutputBody(job_id=job.job_id, lines=[], why="this backend does not read what jobs print")
    if source is None:
        return OutputBody(job_id=job.job_id, lines=[], why="no log of it is known that may be read")
    content = read_end(source)
    if content is None:
        return OutputBody(job_id=job.job_id, lines=[], why="reading its log takes too long just now")
    result = printed(content, lines)
    why = "" if result else "its log is empty, not on this machine, or another user's"
    return OutputBody(job_id=job.job_id, lines=result, why=why)


@router.get("/jobs/{job_id}/utilization", response_model=UtilizationBody, responses=answers(404))
async def utilization(site: AnySite, caller: AnyCaller, job_id: str) -> UtilizationBody:
    """How busy the GPUs of a running job are, where dally.toml names a Prometheus."""
    job = await find(site, caller, job_id)
    return await run_in_threadpool(utilization_of, site, caller, job)


def utilization_of(site: Site, caller: Caller, job: JobBody) -> UtilizationBody:
    """What Prometheus says, or why it says nothing."""
    source = site.utilization
    if not source.source.url:
        return _unknown(job, "dally.toml names no Prometheus")
    if not job.placement:
        return _unknown(job, "it does not run")
    runs_min = ceil((site.status.wall_s - job.since_s) / 60.0)
    minutes = min(max(1, runs_min), LATELY_MINUTES)
    try:
        rows = source.of(job.job_id, job.placement, minutes)
    except PrometheusError as error:
        log.warning("prometheus", why=str(error))
        detail = f": {error}" if is_operator(caller) else ""
        return _unknown(job, f"Prometheus does not say{detail}")
    gpus = {node.name: node.gpus for node in site.status.nodes}
    used = [MachineUse(machine=row.machine, now=row.now, lately=row.lately) for row in rows]
    used.sort(key=lambda one: (one.lately is None, one.lately or 0.0, one.machine))
    return UtilizationBody(
        job_id=job.job_id,
        minutes=minutes,
        now=_mean(job, {row.machine: row.now for row in rows}),
        lately=_mean(job, {row.machine: row.lately for row in rows}),
        shared=not source.source.of_job
        and any(held < gpus.get(name, held) for name, held in job.placement.items()),
        machines=used,
        why="" if any(row.now is not None for row in rows) else "Prometheus knows none of its machines",
    )


def _unknown(job: JobBody, why: str) -> UtilizationBody:
    return UtilizationBody(
        job_id=job.job_id, minutes=LATELY_MINUTES, now=None, lately=None, shared=False, machines=[], why=why
    )


def _mean(job: JobBody, values: dict[str, float | None]) -> float | None:
    """Over the GPUs that the job holds, as far as their machines are known."""
    known = {name: value for name, value in values.items() if value is not None}
    gpus = sum(job.placement[name] for name in known)
    return sum(value * job.placement[name] for name, value in known.items()) / gpus if gpus else None
