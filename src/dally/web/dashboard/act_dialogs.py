"""Dialogs that ask why before something is done to a job, a machine or a timer; and the log of what was done."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from dally.live.overrides import DELAY, FIRST, HOLD, TIMER
from dally.live.status import ClusterStatus
from dally.report.time_text import duration
from dally.web.auth.tokens import USER, Caller
from dally.web.dashboard.templating import page
from dally.web.routes import acts
from dally.web.routes.acts import LONGEST_WHY, Acted, Priority, Reasoned, SetDelay, SetTimer, action_page
from dally.web.routes.bodies import JobBody
from dally.web.routes.dependencies import AnyActor, AnyCaller, AnySite, is_operator
from dally.web.routes.overview import event_page
from dally.web.site import Site

OF_USERS: Final = ("hold", "release", "cancel")  # of jobs that are their own
WAKE_UP: Final = "timer"  # events that say no more than that the policy looked again


class Dialog(NamedTuple):
    """One question."""

    title: str
    effect: str  # what will happen
    button: str
    danger: bool = False
    has_time: bool = False  # for how long to delay
    has_size: bool = False  # of which gangs
    first: bool | None = None  # in line, or back: what was read is done, whatever others did meanwhile


def job_dialog(what: str, job: JobBody, first: bool) -> Dialog | None:
    """What is asked of a job; None: there is no such thing. `first`: whether to put it there, or back."""
    name = f"job {job.job_id}" + (f" ({job.spec.name})" if job.spec.name else "")
    runs = job.state in ("running", "starting")
    stops_first = f"It gets SIGTERM and time to save, and gives its {job.spec.gpus} GPUs back"
    until = "is not offered GPUs until it is released."
    made = {
        "hold": Dialog(f"Hold {name}?", f"{stops_first}; it {until}" if runs else f"It {until}", "Hold it"),
        "release": Dialog(f"Release {name}?", "It is offered GPUs again from now on.", "Release it"),
        "priority": _priority(job, name, first),
        "delay": Dialog(
            f"How long is {name} to delay?",
            "It waits for a place as close together as it can be, and takes any place after that.",
            "Set it",
            has_time=True,
        ),
        "cancel": Dialog(
            f"Cancel {name}?", f"{stops_first}." if runs else "It is taken out of the queue.", "Cancel it", True
        ),
    }
    return made.get(what)


def _priority(job: JobBody, name: str, first: bool) -> Dialog:
    if not first:
        effect = "It goes back to its place" + (f"; {job.first_by} put it first." if job.first_by else ".")
        return Dialog(f"Put {name} back to its place in the queue?", effect, "Put it back", first=False)
    effect = (
        "It is offered GPUs before all other waiting jobs, and is not preempted. "
        "If the policy preempts jobs, it may preempt others for it."
    )
    return Dialog(f"Put {name} first in the queue?", effect, "Put it first", first=True)


def machine_dialog(what: str, name: str, status: ClusterStatus) -> Dialog | None:
    """What is asked of a machine; None: there is no such thing."""
    node = next((node for node in status.nodes if node.name == name), None)
    if node is None or what not in ("drain", "resume"):
        return None
    if what == "resume":
        because = f" It was drained: {node.reason}." if node.reason else ""
        return Dialog(f"Resume {name}?", f"Jobs may start there again.{because}", "Resume it")
    count = len(node.jobs)
    runs = (
        f"The {count} jobs there go on"
        if count > 1
        else "The job there goes on"
        if count
        else "Nothing runs there now"
    )
    return Dialog(f"Drain {name}?", f"{runs}; nothing new starts there until it is resumed.", "Drain it")


def timer_dialog() -> Dialog:
    """What is asked of gangs of a size."""
    effect = "Gangs of that size wait for a place as close together as can be, and take any place after that."
    return Dialog("How long are gangs to delay?", effect, "Set it", has_time=True, has_size=True)


router = APIRouter(include_in_schema=False)


@router.get("/act/{what}/{about:path}")
async def ask(request: Request, site: AnySite, caller: AnyActor, what: str, about: str) -> HTMLResponse:
    """The dialog."""
    dialog = await _dialog(site, caller, what, about, {})
    return page(request, caller, "_act.html", **_values(dialog, what, about, caller, {}))


@router.post("/act/{what}/{about:path}")
async def act(request: Request, site: AnySite, caller: AnyActor, what: str, about: str) -> Response:
    """Do it, and tell the page so; or the dialog again, with what is wrong."""
    options = {
        name: values[0] for name, values in parse_qs((await request.body()).decode("utf-8", "replace")).items()
    }
    dialog = await _dialog(site, caller, what, about, options)
    try:
        done = await _do(site, caller, what, about, dialog, options)
    except HTTPException as refused:
        problem = str(refused.detail)
    except ValidationError as wrong:
        problem = "; ".join(f"{error['loc'][0]}: {error['msg']}" for error in wrong.errors())
    else:
        record = json.dumps({"dally:acted": done.text})  # ASCII, as headers are
        return Response(headers={"HX-Trigger": record})
    return page(request, caller, "_act.html", **_values(dialog, what, about, caller, options, problem))


def _values(
    dialog: Dialog, what: str, about: str, caller: Caller, options: dict[str, str], problem: str = ""
) -> dict[str, Any]:
    return {
        "dialog": dialog, "what": what, "about": about, "given": options, "problem": problem,
        "longest": LONGEST_WHY, "must_say": is_operator(caller),
    }  # fmt: skip


async def _dialog(site: Site, caller: Caller, what: str, about: str, options: dict[str, str]) -> Dialog:
    """What to ask; 403 and 404 as the API has them."""
    if what not in OF_USERS and not is_operator(caller):
        raise HTTPException(403, "this is for operators")
    if what == "timer":
        result: Dialog | None = timer_dialog()
    elif what in ("drain", "resume"):
        result = machine_dialog(what, about, site.status)
    else:
        job = await acts.own_job(site, caller, about)
        first = options["first"] == "yes" if "first" in options else not job.first_by
        result = job_dialog(what, job, first)
    if result is None:
        raise HTTPException(404, f"{what} of {about!r}: there is no such thing")
    return result


async def _do(site: Site, caller: Caller, what: str, about: str, dialog: Dialog, options: dict[str, str]) -> Acted:
    """By the API's own routes."""
    why = options.get("why", "")
    if what == "priority":
        return await acts.priority(site, caller, about, Priority(first=dialog.first is not False, why=why))
    if what == "delay":
        return await acts.delay(site, caller, about, SetDelay(seconds=_seconds(options), why=why))
    if what == "timer":
        request = {"gpus": options.get("gpus", ""), "seconds": _seconds(options), "why": why}
        return await acts.timer(site, caller, SetTimer.model_validate(request))
    if what == "cancel":
        return await acts.cancel(site, caller, about, acts.reason_of(caller, Reasoned(why=why).why))
    route = {
        "hold": acts.hold, "release": acts.release, "drain": acts.drain,
        "resume": acts.resume,
    }[what]  # fmt: skip
    return await route(site, caller, about, Reasoned(why=why))


def _seconds(options: dict[str, str]) -> float | None:
    """For how long to delay, as the form has it."""
    how = options.get("how", "any")
    if how != "wait":
        return 0.0 if how == "any" else None
    try:
        return 60.0 * float(options.get("minutes", ""))
    except ValueError:
        raise HTTPException(422, "minutes: must be a number") from None


ROWS: Final = 50  # on one page
BACK: Final = {HOLD: "release", FIRST: "priority", DELAY: "delay", TIMER: "timer"}  # what takes it back


class OverrideLine(NamedTuple):
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
    of: Annotated[str, Query(pattern="^(people|scheduler)$")] = "people",
) -> HTMLResponse:
    """The page; when htmx asks, what changes of it alone."""
    template = "_log.html" if "hx-request" in request.headers else "log.html"
    if of == "scheduler" and caller.role != USER:
        log_rows = await run_in_threadpool(event_page, site, None, None, ROWS * (at_page - 1), ROWS, WAKE_UP)
        pages = max(1, -(-log_rows.total // ROWS))
        return page(
            request, caller, template, rows=log_rows.events, total=log_rows.total, at_page=at_page, pages=pages,
            standing=[], of=of,
        )  # fmt: skip
    result = await run_in_threadpool(action_page, site, caller, None, None, ROWS * (at_page - 1), ROWS)
    pages = max(1, -(-result.total // ROWS))
    return page(
        request, caller, template, rows=result.actions, total=result.total, at_page=at_page, pages=pages,
        standing=standing(site, caller), of="people",
    )  # fmt: skip


def standing(site: Site, caller: Caller) -> list[OverrideLine]:
    """What stands, as far as it is the caller's business."""
    scheduler = site.service.daemon.scheduler
    if scheduler is None:
        return []
    lines = site.status.by_id
    overrides, clock = scheduler.overrides, site.service.clock
    record = {
        HOLD: "is on hold",
        FIRST: "is first in the queue",
        DELAY: "has a delay of its own",
    }
    result = []
    for kind, text in record.items():
        for job_id, override in overrides.of(kind).items():
            line = lines.get(job_id)
            if line is not None and caller.sees(line.spec.user):
                back = f"{BACK[kind]}/{quote(job_id, safe='')}"
                result.append(OverrideLine(text, override.by(), clock.wall_s(override.at_s), job_id, back))
    for gpus, override in overrides.of(TIMER).items() if caller.sees("") else ():
        for_long = f"delay for a closer place for {duration(override.value)}"
        text = f"Gangs of {gpus} GPUs {for_long if override.value > 0.0 else 'take any place'}"
        result.append(OverrideLine(text, override.by(), clock.wall_s(override.at_s), "", f"{BACK[TIMER]}/{gpus}"))
    return result
