"""The API put together."""

from __future__ import annotations

from typing import Any, Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from dally import __version__
from dally.live.assembly import Service
from dally.live.store.database import StoreError
from dally.web.auth.middleware import AuthMiddleware, Rate
from dally.web.auth.token_cache import TokenCache
from dally.web.dashboard import act_dialogs, log_page, login, what_if_page
from dally.web.dashboard.live_scene import LiveScene
from dally.web.dashboard.pages import add_pages, is_page, problem_page
from dally.web.docs_page import docs_page
from dally.web.routes import acts, cluster, explanations, health, jobs, outlook, trends, whatifs
from dally.web.site import Site

LONGEST: Final = 500  # characters of a problem
ABOUT: Final = (
    "Who waits, why and until when; who runs where; submitting, holding, cancelling. Times are seconds since 1970."
)

log = structlog.get_logger("dally")


def make_app(service: Service, tokens: TokenCache) -> FastAPI:
    """The application over a daemon."""
    app = FastAPI(title="Dally", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    app.state.site = Site(service)
    for module in (jobs, acts, explanations, outlook, cluster, trends, whatifs, health):
        app.include_router(module.router)
    app.add_api_route("/docs", lambda: HTMLResponse(docs_page(app.openapi())), include_in_schema=False)
    app.state.tokens = tokens
    add_pages(app, LiveScene(app.state.site))
    app.include_router(login.router)
    app.include_router(what_if_page.router)
    app.include_router(act_dialogs.router)
    app.include_router(log_page.router)
    app.add_middleware(AuthMiddleware, tokens=tokens, rate=Rate(service.config.requests_per_s))
    handle_problems(app)
    return app


def handle_problems(app: FastAPI) -> None:
    """Say what is wrong: to people on a page, to programs as JSON."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StoreError, _no_store)
    app.add_exception_handler(Exception, _failed)


def _problem(status: int, detail: str, headers: Any = None) -> JSONResponse:
    text = detail.encode("utf-8", "backslashreplace").decode()  # halves of characters are not JSON
    return JSONResponse({"detail": text[:LONGEST]}, status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if is_page(request):
        return problem_page(request, error.status_code, error.detail)
    return _problem(error.status_code, error.detail, error.headers)


async def _no_store(request: Request, error: Exception) -> Response:
    """It may be back in a moment."""
    return await _refused(request, HTTPException(503, f"the store cannot be read: {error}; ask again"))


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """Which value is wrong and why; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    record = []
    for one in error.errors():
        where = ".".join(str(part) for part in one["loc"] if part not in ("body", "query", "path"))
        said = "must not hold control characters" if one["type"] == "string_pattern_mismatch" else one["msg"]
        record.append(f"{where}: {said}" if where else str(said))
    return _problem(422, "; ".join(record))


async def _failed(_request: Request, error: Exception) -> JSONResponse:
    """A bug of ours: told in the log, not to the client."""
    log.error("api_failed", why=repr(error))
    return _problem(500, "an error of the server; its log says more")
