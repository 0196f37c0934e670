"""What if: a form, how far it is, and what would change."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from dally.cluster.delta import tier_plural
from dally.cluster.links import has_links
from dally.cluster.presets import PRESETS
from dally.cluster.spec import read_settings
from dally.errors import InputError
from dally.live.forecast.whatif.what_ifs import RUNNING, WhatIf
from dally.policies.registry import all_policies
from dally.sweep.whatif.change import Figure
from dally.web.auth.tokens import Caller
from dally.web.dashboard.templating import page
from dally.web.routes.bodies import WhatIfQuestion
from dally.web.routes.dependencies import AnySite
from dally.web.routes.outlook import Overseer, begin_question
from dally.web.site import Site

FIELDS: Final = (
    "start", "policy", "settings", "cluster_delta", "network", "quotas", "futures", "horizon_days", "days",
)  # fmt: skip
EMPTY: Final = dict.fromkeys(FIELDS, "") | {"start": "now", "futures": "20", "horizon_days": "3", "days": "7"}
PLAIN: Final = ("fast", "normal", "slow", "congested")  # presets that name no hardware
MORE_IS_BETTER: Final = "gpus_useful"
NEITHER: Final = "gpus_used"
GONE: Final = "This question is not known any more: the server was restarted, or many were asked since."

router = APIRouter(include_in_schema=False)


@router.get("/whatif")
async def whatif_page(request: Request, site: AnySite, caller: Overseer) -> HTMLResponse:
    """The form, and what was asked last."""
    return _page(request, site, caller, EMPTY, site.service.whatifs.latest())


@router.post("/whatif")
async def ask(request: Request, site: AnySite, caller: Overseer) -> Response:
    """Begin; with htmx the piece that shows how far it is."""
    options = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
    requested = EMPTY | {name: options[name][0].strip() for name in FIELDS if name in options}
    try:
        begun = await run_in_threadpool(begin_question, site, caller, _question(requested))
    except (HTTPException, InputError) as error:
        problem = _text_of(error.detail if isinstance(error, HTTPException) else str(error))
        busy = _running(site)
        if "hx-request" in request.headers:
            return _piece(request, caller, busy, problem)
        answer = _page(request, site, caller, requested, busy, problem)
        answer.status_code = 422
        return answer
    if "hx-request" in request.headers:
        return _piece(request, caller, site.service.whatifs.find(begun.number))
    return RedirectResponse(f"/whatif/{begun.number}", 303)


@router.get("/whatif/settings")
async def settings(request: Request, site: AnySite, caller: Overseer, policy: str = "") -> HTMLResponse:
    """What can be set of a policy."""
    result = all_policies()[0].get(policy or site.service.config.setup.policy)
    return page(
        request, caller, "_whatif_settings.html", params=result.params if result else (), files=_files(result)
    )


@router.get("/whatif/{number}")
async def see(request: Request, site: AnySite, caller: Overseer, number: str) -> HTMLResponse:
    """How far it is, or what came of it."""
    result = site.service.whatifs.find(number)
    if result is None:
        return _gone(request, site, caller)
    if "hx-request" in request.headers:
        return _piece(request, caller, result)
    return _page(request, site, caller, EMPTY, result)


@router.post("/whatif/{number}/cancel")
async def cancel(request: Request, site: AnySite, caller: Overseer, number: str) -> Response:
    """Take it back."""
    result = await run_in_threadpool(site.service.whatifs.cancel, number)
    if result is None:
        return _gone(request, site, caller)
    if "hx-request" in request.headers:
        return _piece(request, caller, result)
    return RedirectResponse(f"/whatif/{number}", 303)


def _question(request: dict[str, str]) -> WhatIfQuestion:
    """What the form says; InputError for what it cannot say."""
    try:
        return WhatIfQuestion(
            start=request["start"],  # type: ignore[arg-type]
            policy=request["policy"],
            settings=read_settings("--set", _pieces(request["settings"])),
            cluster_delta=request["cluster_delta"],
            network=request["network"],
            quotas=_pieces(request["quotas"]),
            futures=request["futures"],  # type: ignore[arg-type]
            horizon_s=86400.0 * _number("days ahead", request["horizon_days"]),
            days=_number("days back", request["days"]),
        )
    except ValidationError as error:
        record = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()]
        raise InputError("; ".join(record)) from None


def _pieces(text: str) -> list[str]:
    """What stands between commas or in lines of its own."""
    return [piece.strip() for piece in re.split(r"[,\n\r]+", text) if piece.strip()]


def _number(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{what}: {text!r} is not a number") from None


def _text_of(problem: str) -> str:
    """A problem of the command line as one of the form."""
    for option, parts in (("--cluster-delta", "Machines"), ("--set", "Settings"), ("--quota", "Quotas")):
        problem = problem.replace(option, parts)
    return problem[:1].upper() + problem[1:]


def _page(
    request: Request,
    site: Site,
    caller: Caller,
    requested: dict[str, str],
    result: WhatIf | None,
    problem: str = "",
) -> HTMLResponse:
    service = site.service
    setup, tiers = service.config.setup, service.topology.tiers
    connected = bool(setup.network or setup.network_settings or has_links(service.topology))
    return page(
        request, caller, "whatif.html", asked=requested, problem=problem, policies=all_policies()[0], now=setup,
        deltas=[f"+1 {tiers[-2]}", f"+2 {tier_plural(tiers[-2])}", f"+4 {tier_plural(tiers[0])}", f"-1 {tiers[0]}"],
        networks=[*PLAIN, *(name for name in PRESETS if name not in PLAIN)] if connected else [],
        examples=_examples(setup.policy, tiers), **_shown(result),
    )  # fmt: skip


def _examples(policy: str, tiers: list[str]) -> list[tuple[str, dict[str, str]]]:
    """Questions that every operator has, each with the fields of the form."""
    other = "dally" if policy != "dally" else "fifo-backfill"
    domain = tiers[-2]
    return [
        (f"Would jobs wait less under {other}?", {"policy": other}),
        (f"What would one {domain} more bring?", {"cluster_delta": f"+1 {domain}"}),
        (f"What would one {tiers[0]} less cost?", {"cluster_delta": f"-1 {tiers[0]}"}),
    ]


def _piece(request: Request, caller: Caller, result: WhatIf | None, problem: str = "") -> HTMLResponse:
    return page(request, caller, "_whatif.html", problem=problem, examples=[], **_shown(result))


def _gone(request: Request, site: Site, caller: Caller) -> HTMLResponse:
    """Nobody asked it, or before a restart: then a page that waits for it is told, and asks no more."""
    if "hx-request" not in request.headers:
        raise HTTPException(404, "no such what-if, or it was too long ago")
    return _piece(request, caller, _running(site), GONE)


def _running(site: Site) -> WhatIf | None:
    """The question that is being worked on."""
    result = site.service.whatifs.latest()
    return result if result is not None and result.state == RUNNING else None


def _shown(result: WhatIf | None) -> dict[str, Any]:
    return {"found": result, "way": way}


def way(figure: Figure) -> str:
    """Whether the change is for the better; empty where it is none, or not certain."""
    if figure.low <= 0.0 <= figure.high or figure.name == NEITHER:
        return ""
    return "good" if (figure.change > 0.0) == (figure.name == MORE_IS_BETTER) else "bad"


def _files(result: Any) -> tuple[str, ...]:
    return result.files if result else ()
