"""What every request passes before it is answered: how often, who, from where, how large."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from math import ceil
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from dally.web.auth.client_limits import ClientLimits
from dally.web.auth.peers import Peer
from dally.web.auth.refusal import Message, Refused, Send
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
ONCE: Final = frozenset((b"host", b"origin", b"authorization", b"cookie", b"content-length"))  # in a request
HEADERS: Final = [
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"content-security-policy", POLICY),
]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class Authority(Protocol):
    """Who is let in; Access is one."""

    def stale(self, text: str | None) -> bool:
        """Whether to `read` before `caller` is asked."""
        ...

    def read(self) -> None:
        """Read the tokens anew."""

    def caller(self, text: str | None, peer: Peer) -> Caller | None:
        """Who asks; None: nobody we know."""
        ...


class AuthMiddleware:
    """In front of the application; `caller` of `scope["state"]` says who asks, `known` who that is by now."""

    def __init__(self, app: Any, access: Authority, rate: Rate) -> None:
        self._app = app
        self._access = access
        self._rate = rate
        self._limits = ClientLimits()

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
            client = await self._admit(scope, _headers(scope))
            body = await _body(receive)
        except Refused as refused:
            await refused.answer(with_headers)
            return
        await self._limits.answer(client, scope["path"], self._app, (scope, _again(body, receive), with_headers))

    async def _admit(self, scope: Scope, headers: dict[str, str]) -> str:
        """Whose requests it counts among, once it may go on."""
        text, by_cookie = _token(headers)
        peer: Peer = scope.setdefault("state", {}).get("peer", Peer())
        caller = await self._known(text, peer)
        client = f"token {caller.name}" if caller and text is not None else peer.client
        wait_s = self._rate.take(client)
        if wait_s > 0.0:
            raise Refused(429, "too many requests", {"retry-after": str(ceil(wait_s))})
        is_safe = scope["method"] in SAFE
        _check_origin(headers, is_safe)
        if scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_BELOW):
            return client
        if caller is None or (not caller.name and not is_safe):  # without a name, one may only look
            raise _unknown(scope, headers, text is None)
        if text is None and not peer.by_socket:
            _check_name(headers.get("host", ""))
        if by_cookie and not is_safe and "origin" not in headers:
            raise Refused(403, "browsers say which page asks, and this request does not")
        scope["state"].update(caller=caller, by_cookie=by_cookie, known=partial(self._known, text, peer))
        return client

    async def _known(self, text: str | None, peer: Peer) -> Caller | None:
        if self._access.stale(text):
            await asyncio.to_thread(self._access.read)
        return self._access.caller(text, peer)


def _headers(scope: Scope) -> dict[str, str]:
    """By name; 400 for one that comes twice and would mean one thing to us and another to a proxy."""
    result: dict[str, str] = {}
    for name, value in scope["headers"]:
        text = name.decode("latin-1")
        if text in result and name in ONCE:
            raise Refused(400, f"the header {text} must come once", {"connection": "close"})
        result[text] = value.decode("latin-1")
    if "transfer-encoding" in result and "content-length" in result:
        raise Refused(400, "a request has one length", {"connection": "close"})
    return result


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


def _check_origin(headers: dict[str, str], is_safe: bool) -> None:
    """Pages of other sites that a user has open in a browser must not act for that user."""
    origin = headers.get("origin")
    elsewhere = origin is not None and origin.partition("://")[2] != headers.get("host", "")
    if elsewhere or (not is_safe and headers.get("sec-fetch-site", "none") not in ("same-origin", "none")):
        raise Refused(403, "pages of other sites may not ask this server")


def _check_name(host: str) -> None:
    """Without a token, the server is called by a name of this machine.

    Another name that was made to lead here would make its page one of the same site.
    """
    if host and _hostname(host) not in LOOPBACK:
        raise Refused(403, "without a token, this server is called localhost or 127.0.0.1")


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
