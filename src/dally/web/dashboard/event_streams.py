"""The map as JSON, and server-sent events: what a cycle changed, worked out once for all who see the same."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from fastapi.concurrency import run_in_threadpool

from dally.cluster.topology import Topology
from dally.live.job_status import JobStatus
from dally.live.status import NOT_OFFERED, ClusterStatus
from dally.web.auth.tokens import Caller
from dally.web.dashboard.scene import Scene
from dally.web.routes.dependencies import scope_of, visible

SECRET: Final = secrets.token_hex(16)  # of this process
STATES: Final = {"up": 0, "draining": 1, "down": 2}

Row = dict[str, Any]


@dataclass(frozen=True)
class MapState:
    """Jobs with GPUs, machines by number as [state, [job, GPUs, …], why], uplinks by tier, and counts."""

    cycle: int
    at_s: float
    wall_s: float
    jobs: dict[str, Row]
    machines: list[list[Any]]
    links: list[list[float | None]]
    counts: dict[str, int]

    def to_json(self, boot: str) -> Row:
        """All of it."""
        return {"boot": boot, **vars(self)}


def tree(scene: Scene) -> Row:
    """What hangs under what; it stays as long as `boot` does."""
    topology = scene.topology
    levels = range(len(topology.tiers))
    return {
        "boot": scene.boot,
        "title": scene.title,
        "tiers": list(topology.tiers),
        "names": [list(topology.names[tier]) for tier in levels],
        "first": [[int(one) for one in topology.first_children[tier]] if tier else [] for tier in levels],
        "count": [[int(one) for one in topology.child_counts[tier]] if tier else [] for tier in levels],
        "gpus": [int(gpus) for gpus in topology.gpus[0]],
    }


def map_state(scene: Scene, caller: Caller, at_s: float | None = None) -> MapState:
    """The map of a moment, as the caller may see it."""
    status, topology = scene.status(at_s), scene.topology
    numbers = {name: number for number, name in enumerate(topology.names[0])}
    machines: list[list[Any]] = [[STATES["down"], []] for _ in numbers]
    evidence = scene.evidence({line.job_id for line in status.jobs if caller.sees(line.spec.user)})
    for node in status.nodes:
        if node.name in numbers:
            why = node.reason or evidence.get(node.name, "")
            machines[numbers[node.name]] = [STATES[node.state], [], *([why] if why else [])]
    jobs: dict[str, Row] = {}
    for line in status.jobs:
        if not line.placement:
            continue
        shown = caller.sees(line.spec.user)
        name = line.job_id if shown else stranger(line.job_id)
        jobs[name] = _job(line, status, shown)
        for machine, gpus in line.placement.items():
            if machine in numbers:
                machines[numbers[machine]][1] += [name, gpus]
    return MapState(
        status.cycle, status.at_s, status.wall_s, jobs, machines, _links(topology, scene.loads(at_s)),
        _counts(status, caller),
    )  # fmt: skip


def stranger(job_id: str) -> str:
    """A name for a job that is not the reader's business: the same from cycle to cycle, and it tells nothing."""
    return f"another-{hashlib.sha256(f'{SECRET} {job_id}'.encode()).hexdigest()[:8]}"


def change(before: MapState, after: MapState) -> Row:
    """What of `after` is not as it was."""
    jobs: dict[str, Row | None] = {name: job for name, job in after.jobs.items() if before.jobs.get(name) != job}
    jobs.update({name: None for name in before.jobs if name not in after.jobs})
    machines = {
        str(number): now
        for number, (then, now) in enumerate(zip(before.machines, after.machines, strict=True))
        if then != now
    }
    links = [
        [tier, place, load]
        for tier, (then, now) in enumerate(zip(before.links, after.links, strict=True))
        for place, load in enumerate(now)
        if then[place] != load
    ]
    return {"jobs": jobs, "machines": machines, "links": links}


def _job(line: JobStatus, status: ClusterStatus, shown: bool) -> Row:
    return {
        "name": line.spec.name if shown else "",
        "user": line.spec.user if shown else "",
        "model": line.spec.model if shown else "",
        "gpus": line.spec.gpus,
        "state": line.state,
        "tier": status.tiers.index(line.tier) if line.tier else -1,
        "slowdown": None if line.slowdown is None else round(line.slowdown, 3),
        "since_s": round(line.since_s, 3),
    }


def _links(topology: Topology, loads: dict[str, float]) -> list[list[float | None]]:
    """Loads of the links from each domain up, by tier; of machines there would be too many."""
    result: list[list[float | None]] = [[]]
    for tier in range(1, len(topology.tiers) - 1):
        kind = topology.tiers[tier]
        rows = (loads.get(f"{kind} {name}") for name in topology.names[tier])
        result.append([None if load is None else round(load, 3) for load in rows])
    result.append([])
    return result


def _counts(status: ClusterStatus, caller: Caller) -> dict[str, int]:
    busy = status.busy_gpus
    result = {"gpus": status.gpus, "free": status.free_gpus, "busy": busy, "running": 0, "waiting": 0, "held": 0}
    for line in status.jobs:
        if caller.sees(line.spec.user):
            kind = "running" if line.placement else "held" if line.state in NOT_OFFERED else line.state
            if kind in result:
                result[kind] += 1
    return result


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
        if not self.caller.sees(""):
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
