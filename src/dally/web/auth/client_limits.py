"""How much of the server one client may have at a time, so that there is some left for the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from dally.web.auth.refusal import Message, Refused, Send

STREAMS: Final = "/events"  # its answers do not end
MOST_STREAMS: Final = 120  # of a client: the windows of an office behind one address
MOST_AT_WORK: Final = 12  # requests of a client that are worked on; more wait for each other
ANSWERED_WITHIN_S: Final = 60.0

Call = tuple[Any, Any, Send]  # of an application


class ClientLimits:
    """Counts requests by client."""

    def __init__(self) -> None:
        self._streams: Counter[str] = Counter()
        self._at_work: dict[str, tuple[asyncio.Semaphore, int]] = {}  # and how many hold it or wait

    async def answer(self, client: str, path: str, app: Any, call: Call) -> None:
        """Let the application answer, when this client has room; 429 for too many streams, 503 if it takes long."""
        if path == STREAMS:
            await self._stream(client, app, call)
            return
        semaphore, count = self._at_work.get(client, (asyncio.Semaphore(MOST_AT_WORK), 0))
        self._at_work[client] = (semaphore, count + 1)
        started = _Started(call[2])
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S), semaphore:
                await app(call[0], call[1], started)
        except TimeoutError:
            if not started.yes:
                await Refused(503, f"there is no answer within {ANSWERED_WITHIN_S:g} s; ask again").answer(call[2])
        finally:
            semaphore, count = self._at_work.pop(client)
            if count > 1:
                self._at_work[client] = (semaphore, count - 1)

    async def _stream(self, client: str, app: Any, call: Call) -> None:
        if self._streams[client] >= MOST_STREAMS:
            await Refused(429, f"a client may have {MOST_STREAMS} streams", {"retry-after": "5"}).answer(call[2])
            return
        self._streams[client] += 1
        try:
            await app(*call)
        finally:
            self._streams[client] -= 1
            if not self._streams[client]:
                del self._streams[client]


class _Started:
    """A `send` that notes whether an answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.yes = False

    async def __call__(self, message: Message) -> None:
        self.yes = True
        await self._send(message)
