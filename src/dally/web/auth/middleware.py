"""What every request passes before it is answered: how often, who, from where, how large."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from math import ceil
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from dally.web.auth.tokens import Caller

BURST_S: Final = 2.0  # of its rate a client may save up
MOST_CLIENTS: Final = 10_000  # that are remembered


class Rate:
    """So many requests a second for each client, and a few at once."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * BURST_S)
        self._left: dict[str, tuple[float, float]] = {}  # requests left, and as of when

    def take(self, client: str) -> float:
        """0: it may ask now; else the seconds after which it may."""
        now = time.monotonic()
        left, since = self._left.get(client, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_s)
        if left < 1.0:
            self._left[client] = (left, now)
            return (1.0 - left) / self._per_s
        if len(self._left) >= MOST_CLIENTS and client not in self._left:
            self._forget(now)
        self._left[client] = (left - 1.0, now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Those who have not asked for a while, or everybody if all have."""
        recent = {name: remaining for name, remaining in self._left.items() if now - remaining[1] < BURST_S}
        self._left = recent if len(recent) < MOST_CLIENTS else {}


MOST_BYTES: Final = 1 << 20  # of a request's body
READ_WITHIN_S: Final = 10.0
OPEN_PATHS: Final = frozenset(("/healthz", "/readyz", "/docs", "/openapi.json", "/login", "/logout"))
OPEN_BELOW: Final = "/assets/"  # these tell nothing of the cluster either
SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
COOKIE: Final = "dally_token"  # as a browser keeps it
LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
FRESH: Final = (b"cache-control", b"no-store")
HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"content-security-policy", POLICY),
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Refused(Exception):  # noqa: N818 - an answer
    """The request goes no further: status, what is said, and headers that come with it."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}


class TokenSource(Protocol):
    """Who is let in; TokenCache are one."""

    @property
    def open(self) -> bool:
        """Whether no token is needed."""
        ...

    def stale(self, text: str | None) -> bool:
        """Whether to `read` before `caller` is asked."""
        ...

    def read(self) -> None:
        """Read the tokens anew."""

    def caller(self, text: str | None) -> Caller | None:
        """Who asks; None: nobody we know."""
        ...


class AuthMiddleware:
    """In front of the application; `caller` of `scope["state"]` says who asks, `known` who that is by now."""

    def __init__(self, app: Any, tokens: TokenSource, rate: Rate) -> None:
        self._app = app
        self._tokens = tokens
        self._rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it in, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                options = message.get("headers", [])
                fresh = [] if any(name == FRESH[0] for name, _ in options) else [FRESH]
                message["headers"] = [*options, *HEADERS, *fresh]
            await send(message)

        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            await self._admit(scope, headers)
            body = await _body(receive)
        except Refused as refused:
            await _answer(refused, with_headers)
            return
        await self._app(scope, _again(body, receive), with_headers)

    async def _admit(self, scope: Scope, headers: dict[str, str]) -> None:
        text, by_cookie = _token(headers)
        caller = await self._known(text)
        client = scope.get("client")
        wait_s = self._rate.take(caller.name if caller and caller.name else str(client[0] if client else ""))
        if wait_s > 0.0:
            raise Refused(429, "too many requests", {"retry-after": str(ceil(wait_s))})
        if scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_BELOW):
            return
        if caller is None:
            raise _unknown(scope, headers, text is None)
        if by_cookie and scope["method"] not in SAFE and "origin" not in headers:
            raise Refused(403, "browsers say which page asks, and this request does not")
        _check_origin(headers, self._tokens.open)
        scope.setdefault("state", {}).update(caller=caller, known=partial(self._known, text))

    async def _known(self, text: str | None) -> Caller | None:
        if self._tokens.stale(text):
            await asyncio.to_thread(self._tokens.read)
        return self._tokens.caller(text)


def _token(headers: dict[str, str]) -> tuple[str | None, bool]:
    """The token that came along, and whether it is a browser's cookie."""
    kind, _, text = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text.strip():
        return text.strip(), False
    for one in headers.get("cookie", "").split(";"):
        name, _, value = one.strip().partition("=")
        if name == COOKIE and value:
            return value, True
    return None, False


def _unknown(scope: Scope, headers: dict[str, str], nothing_came: bool) -> Refused:
    """Programs are told what is missing, people are asked for it."""
    if "hx-request" in headers:
        there = _address(headers.get("hx-current-url", ""))
        back = quote(there._replace(scheme="", netloc="", fragment="").geturl() or "/")
        return Refused(401, "sign in again", {"hx-redirect": f"/login?next={back}"})
    back = quote(scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""))
    if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
        return Refused(303, "sign in first", {"location": f"/login?next={back}"})
    problem = "this needs a token" if nothing_came else "this token is not known here"
    return Refused(401, f"{problem}: Authorization: Bearer …", {"www-authenticate": "Bearer"})


def _check_origin(headers: dict[str, str], is_open: bool) -> None:
    """Pages of other sites that somebody has open in a browser must not act for him.

    Without tokens the server must also be called by its own name: a name of the page's that was made to lead here
    would make it the same site.
    """
    host = headers.get("host", "")
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise Refused(403, "pages of other sites may not ask this server")
    if is_open and host and _hostname(host) not in LOOPBACK:
        raise Refused(403, "without tokens, this server is called localhost or 127.0.0.1")


def _hostname(host: str) -> str:
    return _address(f"//{host}").hostname or ""


def _address(text: str) -> SplitResult:
    """Its parts; none of what is no address."""
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")


async def _body(receive: Receive) -> bytes:
    """All of the body, if it is not too large and comes in time."""
    pieces: list[bytes] = []
    size, remaining = 0, 0
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            while True:
                message = await receive()
                piece: bytes = message.get("body", b"")
                size += len(piece)
                if size <= MOST_BYTES:
                    pieces.append(piece)
                    remaining = size
                if size > 16 * MOST_BYTES or not message.get("more_body", False):
                    break
    except TimeoutError:
        raise Refused(408, f"the request did not come within {READ_WITHIN_S:g} s") from None
    if size > remaining:  # it was read to its end, or clients would not listen to the answer
        raise Refused(413, f"the request is larger than {MOST_BYTES >> 20} MiB")
    return b"".join(pieces)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, in one piece."""
    left = [body]

    async def replay() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replay


async def _answer(refused: Refused, send: Send) -> None:
    content = json.dumps({"detail": str(refused)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in refused.headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
