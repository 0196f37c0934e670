"""Why a job waits, and what happened to it."""

from __future__ import annotations

import polars as pl
from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from dally.live.history.live_record import LiveRecord
from dally.live.status import UNSCHEDULABLE
from dally.metrics.record import Record
from dally.report.explanation.job_timeline import Explainer
from dally.web.auth.tokens import USER, Caller
from dally.web.routes.bodies import Explanation, HistoryEntry, Job, Spent
from dally.web.routes.dependencies import BEARER, AnyCaller, AnySite, answers, json_of, scope_of
from dally.web.routes.jobs import find
from dally.web.site import Site

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[BEARER])


@router.get("/jobs/{job_id}/explanation", response_model=Explanation, responses=answers(404))
async def explanation(site: AnySite, caller: AnyCaller, job_id: str) -> Response:
    """What happened to a job so far, why it waits, and how fast it would be where."""
    job = await find(site, caller, job_id)
    status = site.status

    def made() -> bytes:
        with site.one_at_a_time:  # they take their time: others need not wait for several
            return site.page(status, ("explanation", *scope_of(caller), job_id), lambda: explain(site, caller, job))

    return json_of(await run_in_threadpool(made))


def explain(site: Site, caller: Caller, job: Job) -> Explanation:
    """The explanation of a job as the caller may see it."""
    service = site.service
    if job.state == UNSCHEDULABLE:  # the store has nothing of it
        waited_s = (site.status.wall_s - job.submit_s) * service.clock.speed
        spent = Spent(waiting_s=max(0.0, waited_s), useful_s=0.0, network_s=0.0, other_s=0.0)
        return Explanation(job=job, history=[], slowdowns={}, spent=spent)
    record = LiveRecord(
        service.store, service.clock, service.topology, service.config.setup, job.job_id, service.clock.now()
    )
    if caller.role == USER:
        record.hide(lambda job_id: job_id == job.job_id)
    entries = Explainer(record).history(job.job_id)
    history = [
        HistoryEntry(at_s=service.clock.wall_s(entry.time_s), kind=entry.kind, text=entry.text) for entry in entries
    ]
    slowdowns = site.slowdowns(job.spec.model, job.spec.gpus)
    return Explanation(job=job, history=history, slowdowns=slowdowns, spent=spent_of(record, job))


def spent_of(record: Record, job: Job) -> Spent:
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
