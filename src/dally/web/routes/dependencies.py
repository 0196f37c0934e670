"""What routes share: who asks, and which answers there can be besides the right one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer

from dally.live.acts import ActRefused, Busy
from dally.live.job_status import JobStatus
from dally.web.auth.tokens import OPERATOR, Caller
from dally.web.routes.bodies import Problem
from dally.web.site import Site

Result = TypeVar("Result")
DESCRIPTIONS: Final = {
    400: "The request is not JSON.",
    401: "A token is needed, and there was none that is known.",
    403: "The token does not allow this, or a page of another site asked.",
    404: "There is no such thing, or it is not the caller's.",
    408: "The request did not come in time.",
    409: "The cluster does not do that now; `detail` says why.",
    413: "The request is too large.",
    422: "A value is not as it must be; `detail` says which.",
    429: "Too many requests; Retry-After says when to ask again.",
    503: "The server is not ready, or too busy.",
}
ALWAYS: Final = (401, 403, 408, 413, 422, 429, 503)

# The AuthMiddleware has looked at the token already: this is for the documentation.
BEARER: Final = Depends(
    HTTPBearer(auto_error=False, description="From `dally token add`; by the socket, none is needed.")
)


def answers(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of these statuses and of those that every route has."""
    return {code: {"model": Problem, "description": DESCRIPTIONS[code]} for code in sorted({*ALWAYS, *codes})}


def site_of(request: Request) -> Site:
    """What to answer from."""
    result: Site = request.app.state.site
    return result


def caller_of(request: Request) -> Caller:
    """Who asks."""
    result: Caller = request.state.caller
    return result


def actor_of(request: Request) -> Caller:
    """Who asks, if he may submit and cancel."""
    caller = caller_of(request)
    if not caller.may_act:
        raise HTTPException(403, "this token may only look")
    return caller


def operator_of(request: Request) -> Caller:
    """Who asks, if he may do everything."""
    caller = caller_of(request)
    if not is_operator(caller):
        raise HTTPException(403, "this is for operators")
    return caller


AnySite = Annotated[Site, Depends(site_of)]
AnyCaller = Annotated[Caller, Depends(caller_of)]
AnyActor = Annotated[Caller, Depends(actor_of)]
AnyOperator = Annotated[Caller, Depends(operator_of)]


async def between_cycles(act: Callable[[], Result]) -> Result:
    """What comes of something that is done between two cycles, or why it is not."""
    try:
        return await run_in_threadpool(act)
    except ActRefused as refused:
        raise HTTPException(409, str(refused)) from None
    except Busy as busy:
        raise HTTPException(503, str(busy)) from None


def json_of(content: bytes) -> Response:
    """A page that is JSON already."""
    return Response(content, media_type="application/json")


def visible(lines: tuple[JobStatus, ...], caller: Caller) -> tuple[JobStatus, ...]:
    """The jobs that are the caller's business."""
    return lines if caller.sees("") else tuple(line for line in lines if caller.sees(line.spec.user))


def scope_of(caller: Caller) -> tuple[str, ...]:
    """What tells callers apart who see different things; for keys of kept pages."""
    return ("",) if caller.sees("") else ("user", caller.user)


def is_operator(caller: Caller) -> bool:
    """Whether it may see what goes wrong inside."""
    return caller.role == OPERATOR
