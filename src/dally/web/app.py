"""The API put together, and /docs: the API as one plain page, which works on clusters without a way out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from dally import __version__
from dally.live.assembly import Service
from dally.live.store.database import StoreError
from dally.web.auth.access import Access
from dally.web.auth.middleware import AuthMiddleware, Rate
from dally.web.dashboard import act_dialogs, job_output_page, login, team_page, what_if_page
from dally.web.dashboard.live_scene import LiveScene
from dally.web.dashboard.pages import add_pages, is_page, problem_page
from dally.web.dashboard.templating import asset_url
from dally.web.routes import acts, cluster, health, job_advice, job_output, jobs, outlook, overview, stated_progress
from dally.web.routes.bodies import PATTERNS
from dally.web.site import Site

LONGEST: Final = 500  # characters of a problem
ABOUT: Final = (
    "Which jobs wait, why and until when; where jobs run; submitting, holding, cancelling. "
    "Times are seconds since 1970."
)

log = structlog.get_logger("dally")


def make_app(service: Service, access: Access) -> FastAPI:
    """The application over a daemon."""
    app = FastAPI(title="Dally", version=__version__, description=ABOUT, openapi_url=None)
    app.state.site = Site(service)
    for module in (jobs, job_output, acts, stated_progress, job_advice, outlook, cluster, overview, health):
        app.include_router(module.router)
    _add_reference(app)
    app.state.tokens = access.tokens
    add_pages(app, LiveScene(app.state.site))
    app.include_router(login.router)
    app.include_router(what_if_page.router)
    app.include_router(team_page.router)
    app.include_router(job_output_page.router)
    app.include_router(act_dialogs.router)
    app.add_middleware(AuthMiddleware, access=access, rate=Rate(service.config.requests_per_s))
    handle_problems(app)
    return app


def _add_reference(app: FastAPI) -> None:
    """The API's description, for programs and for people: open to all, so made once."""

    @cache
    def schema() -> bytes:
        return json.dumps(app.openapi()).encode()

    @cache
    def page() -> str:
        return docs_page(app.openapi())

    async def for_programs() -> Response:
        return Response(schema(), media_type="application/json")

    async def for_people() -> HTMLResponse:
        return HTMLResponse(page())

    app.add_api_route("/openapi.json", for_programs, include_in_schema=False)
    app.add_api_route("/docs", for_people, include_in_schema=False)


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
        text = PATTERNS.get(one.get("ctx", {}).get("pattern", ""), one["msg"])
        record.append(f"{where}: {text}" if where else str(text))
    return _problem(422, "; ".join(record))


async def _failed(_request: Request, error: Exception) -> JSONResponse:
    """A bug of ours: told in the log, not to the client."""
    log.error("api_failed", why=repr(error))
    return _problem(500, "an error of the server; its log says more")


EXAMPLES: Final = {
    "gpus": 8,
    "command": ["sleep", "60"],
    "seconds": 1800,
    "cluster_delta": "+2 racks",
    "why": "a deadline on Friday",
}


def docs_page(schema: dict[str, Any]) -> str:
    """The page of an OpenAPI schema."""
    parts = schema["components"]["schemas"]
    body = [
        "<p><a href=/>← Dally</a></p>",
        f"<h1>{escape(schema['info']['title'])} {escape(schema['info']['version'])}</h1>",
        f"<p>{escape(schema['info']['description'])}",
        " The same for programs: <a href=openapi.json>openapi.json</a>.</p>",
    ]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            body.extend(_operation(path, method, operation, parts))
    icon = f"<link rel=icon href={asset_url('icon.svg')} type=image/svg+xml>"
    styles = icon + "".join(f"<link rel=stylesheet href={asset_url(name)}>" for name in ("colours.css", "docs.css"))
    wide = '<meta name=viewport content="width=device-width, initial-scale=1">'
    theme = f"<script src={asset_url('theme.js')}></script>"
    head = f"<!doctype html><html lang=en><meta charset=utf-8>{wide}<title>Dally API</title>{styles}{theme}"
    return f"{head}{''.join(body)}</html>\n"


def _operation(path: str, method: str, operation: dict[str, Any], parts: dict[str, Any]) -> Iterator[str]:
    yield f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(operation.get('description', ''))}</p>"
    rows = [(f"{one['name']}", one.get("description", "")) for one in operation.get("parameters", [])]
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        rows += _fields(content["application/json"]["schema"], parts)
    yield _table("Takes", rows)
    good = next(code for code in operation["responses"] if code.startswith("2"))
    answer = operation["responses"][good].get("content", {}).get("application/json", {})
    yield _table(f"Answers {good} with", list(_fields(answer.get("schema", {}), parts)))
    others = [(code, one["description"]) for code, one in operation["responses"].items() if code != good]
    yield f"<details><summary>Other answers</summary>{_table('', others)}</details>"
    yield f"<pre tabindex=0>{escape(_curl(path, method, operation, parts))}</pre>"


def _fields(schema: dict[str, Any], parts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = schema.get("$ref", "").rpartition("/")[2]
    for field, record in parts.get(name, {}).get("properties", {}).items():
        yield field, f"{_kind(record)}. {record.get('description', '')}"


def _kind(record: dict[str, Any]) -> str:
    """The type in words."""
    if "items" in record:
        return f"list of {_kind(record['items'])}"
    named: str = record.get("type") or record.get("$ref", "").rpartition("/")[2]
    return named or " or ".join(_kind(one) for one in record.get("anyOf", []))


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    lines = "".join(f"<tr><td><code>{escape(name)}</code><td>{escape(about)}" for name, about in rows)
    return f"{f'<p>{escape(title)}:' if title else ''}<table>{lines}</table>"


def _curl(path: str, method: str, operation: dict[str, Any], parts: dict[str, Any]) -> str:
    tokens = ["curl"]
    if method != "get":
        tokens.append(f"-X {method.upper()}")
    if "requestBody" in operation:
        fields = dict(_fields(operation["requestBody"]["content"]["application/json"]["schema"], parts))
        options = json.dumps({name: value for name, value in EXAMPLES.items() if name in fields})
        tokens.append(f"-H 'Content-Type: application/json' -d '{options}'")
    if "security" in operation:
        tokens.append('-H "Authorization: Bearer $DALLY_TOKEN"')
    return " ".join([*tokens, f"$DALLY_SERVER{path}"])
