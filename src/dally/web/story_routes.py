"""Why a job waits, and what happened to it."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from dally.live.facts import known_model
from dally.live.live_record import LiveRecord
from dally.report.explain import Stories
from dally.runs.assemble import tier_slowdowns
from dally.web.asking import BEARER, AnyCaller, AnySite, answers, json_of, scope_of
from dally.web.bodies import Explanation, Job, StoryLine
from dally.web.queue_routes import find
from dally.web.site import Site
from dally.web.tokens import USER, Caller

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[BEARER])


@router.get("/jobs/{job_id}/explanation", response_model=Explanation, responses=answers(404))
async def explanation(site: AnySite, caller: AnyCaller, job_id: str) -> Response:
    """What happened to a job so far, why it waits, and how fast it would be where."""
    job = await find(site, caller, job_id)
    board = site.board

    def made() -> bytes:
        with site.one_at_a_time:  # they take their time: others need not wait for several
            return site.page(board, ("explanation", *scope_of(caller), job_id), lambda: explain(site, caller, job))

    return json_of(await run_in_threadpool(made))


def explain(site: Site, caller: Caller, job: Job) -> Explanation:
    """The story of a job as the caller may hear it."""
    service = site.service
    record = LiveRecord(
        service.store, service.clock, service.topology, service.config.setup, job.job_id, service.clock.now()
    )
    if caller.role == USER:
        record.hide(lambda job_id: job_id == job.job_id)
    lines = Stories(record).story(job.job_id)
    story = [StoryLine(at_s=service.clock.wall_s(line.time_s), kind=line.kind, text=line.text) for line in lines]
    return Explanation(job=job, story=story, slowdowns=_slowdowns(record, job, service.config.setup.usual_model))


def _slowdowns(record: LiveRecord, job: Job, usual_model: str) -> dict[str, float]:
    found = tier_slowdowns(record.scenario, known_model(job.model, usual_model), job.gpus, record.topology)
    return {tier: value for tier, value in zip(record.tiers, found, strict=False) if value > 0.0}
