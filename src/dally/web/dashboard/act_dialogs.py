"""Dialogs that ask why before something is done to a job, a machine or a timer, and do it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from dally.web.auth.tokens import Caller
from dally.web.dashboard.dialog_words import OF_USERS, Dialog, job_dialog, machine_dialog, timer_dialog
from dally.web.dashboard.templating import page
from dally.web.routes import acts
from dally.web.routes.act_bodies import LONGEST_WHY, Acted, Patience, Priority, Reasoned, SetTimer
from dally.web.routes.dependencies import AnyActor, AnySite, is_operator
from dally.web.routes.jobs import find
from dally.web.site import Site

router = APIRouter(include_in_schema=False)


@router.get("/act/{what}/{about:path}")
async def ask(request: Request, site: AnySite, caller: AnyActor, what: str, about: str) -> HTMLResponse:
    """The dialog."""
    dialog = await _dialog(site, caller, what, about, {})
    return page(request, caller, "_act.html", **_values(dialog, what, about, caller, {}))


@router.post("/act/{what}/{about:path}")
async def act(request: Request, site: AnySite, caller: AnyActor, what: str, about: str) -> Response:
    """Do it, and tell the page so; or the dialog again, with what is wrong."""
    given = {
        name: values[0] for name, values in parse_qs((await request.body()).decode("utf-8", "replace")).items()
    }
    dialog = await _dialog(site, caller, what, about, given)
    try:
        done = await _do(site, caller, what, about, dialog, given)
    except HTTPException as refused:
        problem = str(refused.detail)
    except ValidationError as wrong:
        problem = "; ".join(f"{error['loc'][0]}: {error['msg']}" for error in wrong.errors())
    else:
        told = json.dumps({"dally:acted": done.text})  # ASCII, as headers are
        return Response(headers={"HX-Trigger": told})
    return page(request, caller, "_act.html", **_values(dialog, what, about, caller, given, problem))


def _values(
    dialog: Dialog, what: str, about: str, caller: Caller, given: dict[str, str], problem: str = ""
) -> dict[str, Any]:
    return {
        "dialog": dialog, "what": what, "about": about, "given": given, "problem": problem,
        "longest": LONGEST_WHY, "must_say": is_operator(caller),
    }  # fmt: skip


async def _dialog(site: Site, caller: Caller, what: str, about: str, given: dict[str, str]) -> Dialog:
    """What to ask; 403 and 404 as the API has them."""
    if what not in OF_USERS and not is_operator(caller):
        raise HTTPException(403, "this is for operators")
    if what == "timer":
        found: Dialog | None = timer_dialog()
    elif what in ("drain", "resume"):
        found = machine_dialog(what, about, site.status)
    else:
        job = await find(site, caller, about)
        first = given["first"] == "yes" if "first" in given else not job.first_by
        found = job_dialog(what, job, first)
    if found is None:
        raise HTTPException(404, f"{what} of {about!r}: there is no such thing")
    return found


async def _do(site: Site, caller: Caller, what: str, about: str, dialog: Dialog, given: dict[str, str]) -> Acted:
    """By the API's own routes."""
    why = given.get("why", "")
    if what == "priority":
        return await acts.priority(site, caller, about, Priority(first=dialog.first is not False, why=why))
    if what == "patience":
        return await acts.patience(site, caller, about, Patience(seconds=_seconds(given), why=why))
    if what == "timer":
        asked = {"gpus": given.get("gpus", ""), "seconds": _seconds(given), "why": why}
        return await acts.timer(site, caller, SetTimer.model_validate(asked))
    if what == "cancel":
        return await acts.cancel(site, caller, about, acts.reason_of(caller, Reasoned(why=why).why))
    route = {
        "hold": acts.hold, "release": acts.release, "drain": acts.drain,
        "resume": acts.resume,
    }[what]  # fmt: skip
    return await route(site, caller, about, Reasoned(why=why))


def _seconds(given: dict[str, str]) -> float | None:
    """For how long to hold out, as the form has it."""
    how = given.get("how", "any")
    if how != "wait":
        return 0.0 if how == "any" else None
    try:
        return 60.0 * float(given.get("minutes", ""))
    except ValueError:
        raise HTTPException(422, "minutes: must be a number") from None
