"""A token given once, and kept by the browser as a cookie that scripts cannot read."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from dally.web.auth.middleware import COOKIE
from dally.web.auth.token_cache import TokenCache
from dally.web.dashboard.templating import environment

COOKIE_S: Final = 30 * 86400

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def ask(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002 - the address's word
    """Ask for the token."""
    return _form(next, "")


@router.post("/login")
async def sign_in(request: Request) -> Response:
    """Look at the token, and go where the visitor was going."""
    options = parse_qs((await request.body()).decode("utf-8", "replace"))
    text, target = options.get("token", [""])[0].strip(), options.get("next", ["/"])[0]
    tokens: TokenCache = request.app.state.tokens
    if tokens.stale(text):
        await run_in_threadpool(tokens.read)
    if not text or (tokens.caller(text) is None):
        return _form(target, "This token is not known here.", 401)
    answer = RedirectResponse(_ours(target), 303)
    answer.set_cookie(
        COOKIE,
        text,
        max_age=COOKIE_S,
        httponly=True,
        secure=request.url.scheme == "https",
        samesite="lax",  # links in mails lead here signed in; what acts is no GET, and needs an Origin of ours
    )
    return answer


@router.post("/logout")
async def sign_out() -> Response:
    """Forget the token."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


def _form(target: str, problem: str, status: int = 200) -> HTMLResponse:
    text = environment().get_template("login.html").render(target=_ours(target), problem=problem)
    return HTMLResponse(text, status)


def _ours(target: str) -> str:
    """The address, if it is a page of ours: nobody is sent elsewhere from here."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"
