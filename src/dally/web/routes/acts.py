"""Doing something to jobs, machines and timers, and the log of who did what and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, get_args

from fastapi import APIRouter, HTTPException, Query
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StringConstraints

from dally.live.acts import Act, Acts
from dally.live.store.log_rows import actions
from dally.web.auth.tokens import Caller
from dally.web.routes.bodies import MOST_GPUS, MOST_S, NO_CONTROL, Body, EndState, JobBody, Text
from dally.web.routes.dependencies import (
    BEARER,
    AnyActor,
    AnyCaller,
    AnyOperator,
    AnySite,
    answers,
    between_cycles,
    is_operator,
)
from dally.web.routes.jobs import find
from dally.web.site import Site, visible_user

LONGEST_WHY = 500
Held = Annotated[float, Field(ge=0.0, le=MOST_S, allow_inf_nan=False)] | None
Why = Annotated[str, StringConstraints(max_length=LONGEST_WHY, pattern=NO_CONTROL, strip_whitespace=True)]


class Reasoned(Body):
    """Why: it is kept with who asked, and told in the job's story."""

    why: Why = Field(default="", description="Users may leave it out for jobs of their own.")


class Priority(Reasoned):
    """Whether the job is to come before all others who wait."""

    first: bool = True


class SetDelay(Reasoned):
    """For how long a job, from now on, delays for a closer place."""

    seconds: Held = Field(description="0: it takes any place from now on; null: as the policy has it.")


class SetTimer(SetDelay):
    """For how long gangs of a size delay for a closer place."""

    gpus: int = Field(ge=1, le=MOST_GPUS)


class Acted(Body):
    """It is written down, and holds from the next cycle on, or was asked of the cluster."""

    job_id: Text
    machine: Text
    what: str
    text: Text = Field(description="What was done, its author and the reason.")


class ActionBody(Body):
    """One action of a user or operator."""

    id: int
    at_s: float
    who: Text
    what: str
    job_id: Text = Field(description="Empty: it was about a machine, or about gangs of a size.")
    machine: Text
    message: Text = Field(description="The action, as a sentence.")
    why: Text
    outcome: Text = Field(description="done; refused, and why; asked: the result is not known.")


class ActionPage(Body):
    """Some of them, the latest first."""

    total: int
    offset: int
    actions: list[ActionBody]


router = APIRouter(prefix="/api/v1", tags=["actions"], dependencies=[BEARER])


@router.post("/jobs/{job_id}/hold", response_model=Acted, responses=answers(400, 404, 409))
async def hold(site: AnySite, caller: AnyActor, job_id: str, request: Reasoned) -> Acted:
    """Keep a job from running until it is released; one that runs is stopped as if preempted."""
    await live_job(site, caller, job_id)
    why = reason_of(caller, request.why)
    return await done(lambda: Acts(site.service).hold(job_id, who(caller), why, not is_operator(caller)))


@router.post("/jobs/{job_id}/release", response_model=Acted, responses=answers(400, 404, 409))
async def release(site: AnySite, caller: AnyActor, job_id: str, request: Reasoned) -> Acted:
    """Let a job run again that was held here; users only what users held."""
    await live_job(site, caller, job_id)
    why = reason_of(caller, request.why)
    return await done(lambda: Acts(site.service).release(job_id, who(caller), why, not is_operator(caller)))


@router.post("/jobs/{job_id}/priority", response_model=Acted, responses=answers(400, 404, 409))
async def priority(site: AnySite, caller: AnyOperator, job_id: str, request: Priority) -> Acted:
    """Put a job first in the queue, or back in its place."""
    await live_job(site, caller, job_id)
    why = reason_of(caller, request.why)
    return await done(lambda: Acts(site.service).put_first(job_id, request.first, who(caller), why))


@router.post("/jobs/{job_id}/delay", response_model=Acted, responses=answers(400, 404, 409))
async def delay(site: AnySite, caller: AnyOperator, job_id: str, request: SetDelay) -> Acted:
    """Say for how long a job, from now on, delays for a closer place."""
    await live_job(site, caller, job_id)
    why = reason_of(caller, request.why)
    return await done(lambda: Acts(site.service).set_delay(job_id, request.seconds, who(caller), why))


@router.post("/timers", response_model=Acted, responses=answers(400, 409))
async def timer(site: AnySite, caller: AnyOperator, request: SetTimer) -> Acted:
    """Say for how long gangs of a size delay for a closer place."""
    why = reason_of(caller, request.why)
    return await done(lambda: Acts(site.service).set_timer(request.gpus, request.seconds, who(caller), why))


@router.delete("/jobs/{job_id}", status_code=202, response_model=Acted, responses=answers(404, 409))
async def cancel(site: AnySite, caller: AnyActor, job_id: str, why: Annotated[Why, Query()] = "") -> Acted:
    """Cancel a job, waiting or running. It has ended once its state is an end state."""
    result = await live_job(site, caller, job_id)
    return await done(lambda: Acts(site.service).cancel(job_id, result.spec.user, who(caller), why))


@router.post("/nodes/{name}/drain", response_model=Acted, responses=answers(400, 404, 409))
async def drain(site: AnySite, caller: AnyOperator, name: str, request: Reasoned) -> Acted:
    """Let what runs on a machine go on, and start nothing new there."""
    check_machine(site, name)
    why = reason_of(caller, request.why)
    return await done(lambda: Acts(site.service).drain(name, who(caller), why))


@router.post("/nodes/{name}/resume", response_model=Acted, responses=answers(400, 404, 409))
async def resume(site: AnySite, caller: AnyOperator, name: str, request: Reasoned) -> Acted:
    """Let a machine take jobs again."""
    check_machine(site, name)
    why = reason_of(caller, request.why)
    return await done(lambda: Acts(site.service).resume(name, who(caller), why))


@router.get("/actions", response_model=ActionPage, responses=answers())
async def log(
    site: AnySite,
    caller: AnyCaller,
    job_id: Annotated[str | None, Query(max_length=200, description="Only on this job.")] = None,
    machine: Annotated[str | None, Query(max_length=200, description="Only on this machine.")] = None,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ActionPage:
    """Who did what and why, the latest first; users see what was done to their own jobs."""
    return await run_in_threadpool(action_page, site, caller, job_id, machine, offset, limit)


def action_page(
    site: Site, caller: Caller, job_id: str | None, machine: str | None, offset: int, limit: int
) -> ActionPage:
    """A page of the log as the caller may see it."""
    service = site.service
    total, rows = actions(service.store, visible_user(caller, None), job_id, machine, offset, limit)
    shown = [
        ActionBody(
            id=row["id"], at_s=service.clock.wall_s(row["time_s"]), who=row["who"], what=row["what"],
            job_id=row["job_id"] or "", machine=row["machine"] or "", message=row["told"], why=row["why"],
            outcome=row["outcome"],
        )
        for row in rows
    ]  # fmt: skip
    return ActionPage(total=total, offset=offset, actions=shown)


async def own_job(site: Site, caller: Caller, job_id: str) -> JobBody:
    """The job, if the caller may see it and act on it."""
    result = await find(site, caller, job_id)
    if not caller.may_touch(result.spec.user):
        raise HTTPException(403, f"job {job_id!r} is another user's; you may act on your own jobs")
    return result


async def live_job(site: Site, caller: Caller, job_id: str) -> JobBody:
    """The job, if the caller may act on it and it has not ended."""
    result = await own_job(site, caller, job_id)
    if result.state in get_args(EndState):
        raise HTTPException(409, f"job {job_id!r} has ended already: {result.state}")
    return result


def check_machine(site: Site, name: str) -> None:
    """404 unless there is such a machine."""
    if all(node.name != name for node in site.status.nodes):
        raise HTTPException(404, f"machine {name!r}: there is no such machine")


def who(caller: Caller) -> str:
    """As the log is to call them; where no token is needed nobody has a name."""
    return caller.name or "somebody"


def reason_of(caller: Caller, why: str) -> str:
    """Why; operators must say it."""
    if is_operator(caller) and not why:
        raise HTTPException(422, "why: must be given: the log and the job's history show it")
    return why


async def done(act: Callable[[], Act]) -> Acted:
    """What was done, or why not."""
    result = await between_cycles(act)
    return Acted(job_id=result.job_id or "", machine=result.machine or "", what=result.what, text=result.sentence())
