"""Connections: who is at the other end, how many of them, and how long they may take over a request."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from dally.web.auth.peers import Peer, peer_of

MOST_AT_ONCE: Final = 500  # connections
MOST_OF_ONE: Final = 150  # of a user of this machine, or of an address
RESERVED: Final = 50  # for root and the daemon's own user by the socket: they can always see what goes on
HEADERS_WITHIN_S: Final = 10.0
TAKEN_WITHIN_S: Final = 60.0  # an answer that is on its way
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b'content-length: 34\r\n\r\n{"detail": "too many connections"}'
)


class Connections:
    """Counts them, for all addresses at which a server listens."""

    def __init__(self) -> None:
        self._by_client: Counter[str] = Counter()

    def enter(self, peer: Peer) -> bool:
        """Whether there is room for one more of this peer."""
        trusted = peer.by_socket and peer.uid in (0, os.geteuid())
        most = MOST_AT_ONCE if trusted else MOST_AT_ONCE - RESERVED
        if self._by_client.total() >= most or self._by_client[peer.client] >= MOST_OF_ONE:
            return False
        self._by_client[peer.client] += 1
        return True

    def leave(self, peer: Peer) -> None:
        """One fewer."""
        self._by_client[peer.client] -= 1
        if not self._by_client[peer.client]:
            del self._by_client[peer.client]


class _Deadline:
    """Ends a connection unless what it waits for comes in time."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, within_s: float, transport: asyncio.Transport) -> None:
        """From the first time on: what comes in drops does not move it."""
        if self._timer is None:
            self._timer = loop.call_later(within_s, transport.abort)

    def end(self) -> None:
        """It came."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LimitedProtocol(H11Protocol):
    """Lets go of a client that is slow to ask or does not take its answer: there is room for so many."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connections = connections
        self._peer: Peer | None = None
        self._header_deadline = _Deadline()  # for the headers of a request
        self._write_deadline = _Deadline()  # for what was written

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = peer_of(transport)
        if not self._connections.enter(peer):
            transport.write(FULL)
            transport.close()
            return
        self._peer = peer
        self.app_state = {**self.app_state, "peer": peer}
        self._header_deadline.begin(self.loop, HEADERS_WITHIN_S, self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._header_deadline.end()
        self._write_deadline.end()
        if self._peer is not None:
            self._connections.leave(self._peer)
            self._peer = None

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._header_deadline.end()
        else:  # a request has begun to come
            self._header_deadline.begin(self.loop, HEADERS_WITHIN_S, self.transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_deadline.begin(self.loop, TAKEN_WITHIN_S, self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_deadline.end()
