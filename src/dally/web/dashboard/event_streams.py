"""Server-sent events: what a cycle changed, worked out once for all who see the same, and sent to each."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import Any, Final

import structlog
from fastapi.concurrency import run_in_threadpool

from dally.live.status import ClusterStatus
from dally.web.auth.tokens import Caller
from dally.web.dashboard.map_data import MapState, change, map_state
from dally.web.dashboard.scene import Scene
from dally.web.routes.dependencies import scope_of, visible

AWAKE_S: Final = 15.0  # after so long without a word one is sent: proxies end what seems dead, and so do pages
MOST_BEHIND: Final = 30  # messages; a browser that lags further is told to begin anew

log = structlog.get_logger("dally")


class Channel:
    """Those who see the same, and what they were last told."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.listeners: set[asyncio.Queue[bytes]] = set()
        self.state: MapState | None = None
        self.boot = ""
        self.queue: tuple[Any, ...] = ()
        self._theirs: set[str] = set()  # their jobs when they were last told something
        self._one_at_a_time = threading.Lock()

    def begin(self, scene: Scene) -> None:
        """Learn how things stand, unless somebody's stream did already."""
        with self._one_at_a_time:
            if self.state is None:
                self._changes(scene, set())

    def message(self, scene: Scene, touched: set[str]) -> bytes | None:
        """What is new since the last one; None: nothing."""
        with self._one_at_a_time:
            return self._changes(scene, touched)

    def _changes(self, scene: Scene, touched: set[str]) -> bytes | None:
        status, before = scene.status(None), self.state
        after, queue = map_state(scene, self.caller), waiting_lines(status, self.caller)
        moved = queue != self.queue
        elsewhere = self.boot != scene.boot
        theirs, changes = self._theirs, sorted(touched)
        if self.caller.user:
            self._theirs = {line.job_id for line in visible(status.jobs, self.caller)}
            changes = sorted(touched & (theirs | self._theirs))  # one that has ended was there the last time
        self.state, self.queue, self.boot = after, queue, scene.boot
        if before is None or elsewhere:
            return hello(scene, after)
        changed = change(before, after)
        if not (moved or changes or before.counts != after.counts or any(changed.values())):
            self.state = before  # so that the next message says after which one it comes
            return None
        head = {"cycle": after.cycle, "after": before.cycle, "at_s": after.at_s, "wall_s": after.wall_s}
        return event("cycle", {**head, "counts": after.counts, "queue": moved, "touched": changes, **changed})

    def send(self, message: bytes) -> None:
        """To everybody; who is too far behind begins anew."""
        for listener in self.listeners:
            if listener.full():
                empty(listener)
                listener.put_nowait(event("behind", {}))
            else:
                listener.put_nowait(message)


class Streams:
    """All event streams of one server."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._channels: dict[Hashable, Channel] = {}
        self._touched: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self._pump: asyncio.Task[None] | None = None
        self._closed = False
        scene.watch(self._watched)

    def _watched(self, touched: set[str]) -> None:
        """A cycle came about, in the daemon's thread."""
        if self._loop is not None and not self._closed:
            self._loop.call_soon_threadsafe(self._wake, touched)

    def _wake(self, touched: set[str]) -> None:
        self._touched |= touched
        if self._changed is not None:
            self._changed.set()

    async def listen(
        self, caller: Caller, known: Callable[[], Awaitable[Caller | None]]
    ) -> AsyncGenerator[bytes, None]:
        """The events of one browser, until it leaves, or we do, or its token is not `known` as the caller's."""
        self._begin()
        inbox: asyncio.Queue[bytes] = asyncio.Queue(MOST_BEHIND)
        channel = self._channels.setdefault(scope_of(caller), Channel(caller))
        channel.listeners.add(inbox)  # before waiting for anything: a channel without listeners is given up
        try:
            await run_in_threadpool(channel.begin, self._scene)
            assert channel.state is not None
            empty(inbox)  # what came before the greeting is part of it
            yield b"retry: 1000\n" + hello(self._scene, channel.state)
            while not self._closed:
                try:
                    async with asyncio.timeout(AWAKE_S):
                        message = await inbox.get()
                except TimeoutError:
                    message = event("awake", {})
                if not message or await known() != caller:
                    return
                yield message
        finally:
            self._leave(channel, inbox)

    def _begin(self) -> None:
        """With the first browser."""
        if self._pump is None:
            self._loop = asyncio.get_running_loop()
            self._changed = asyncio.Event()
            self._pump = asyncio.create_task(self._send_all(self._changed))

    def _leave(self, channel: Channel, inbox: asyncio.Queue[bytes]) -> None:
        channel.listeners.discard(inbox)
        if not channel.listeners:
            self._channels.pop(scope_of(channel.caller), None)

    async def _send_all(self, changed: asyncio.Event) -> None:
        """Cycle after cycle, each message made once per channel."""
        while True:
            await changed.wait()
            changed.clear()
            touched, self._touched = self._touched, set()
            for channel in list(self._channels.values()):
                try:
                    message = await run_in_threadpool(channel.message, self._scene, touched)
                except Exception as error:  # a bug of ours must not end everybody's stream
                    log.error("stream_failed", why=repr(error))
                    continue
                if message is not None:
                    channel.send(message)

    def close(self) -> None:
        """End all streams, from another thread."""
        if self._loop is not None and not self._closed:
            self._closed = True
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        for channel in self._channels.values():
            channel.send(b"")


def empty(inbox: asyncio.Queue[bytes]) -> None:
    """Forget what is in it."""
    while not inbox.empty():
        inbox.get_nowait()


def waiting_lines(status: ClusterStatus, caller: Caller) -> tuple[Any, ...]:
    """What the page of the queue shows of those who wait: another value, another page."""
    return tuple(
        (line.job_id, line.state, line.place, line.reason, line.next_s)
        for line in visible(status.jobs, caller)
        if not line.placement
    )


def hello(scene: Scene, state: MapState) -> bytes:
    """The first message: from which cycle on the others tell."""
    wall_s = scene.status(None).wall_s  # the state may be as old as the last change
    return event("hello", {"boot": scene.boot, "cycle": state.cycle, "wall_s": wall_s, "counts": state.counts})


def event(kind: str, body: dict[str, Any]) -> bytes:
    """One event as it goes over the wire."""
    return f"event: {kind}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()
