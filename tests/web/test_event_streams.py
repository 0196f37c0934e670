"""What streams send: applied one after the other, it is how things stand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dally.errors import InputError
from dally.web.auth import token_cache
from dally.web.auth.tokens import OPERATOR, USER, Caller, remove_token
from dally.web.dashboard import event_streams
from dally.web.dashboard.event_streams import MOST_BEHIND, Channel, Streams, hello, map_state
from tests.web.conftest import Desk

OPERATES = Caller("", OPERATOR)
ANN = Caller("a", USER, "ann")
STEPS = st.lists(
    st.tuples(st.sampled_from(("submit", "cancel", "down", "up", "cycle")), st.integers(1, 16)), max_size=12
)


async def operates() -> Caller:
    """Who holds the token by now."""
    return OPERATES


def news(channel: Channel, desk: Desk, touched: set[str] | None = None) -> tuple[str, dict[str, Any]] | None:
    """The event's name and what it says; None: nothing was said."""
    message = channel.message(desk.app.state.scene, touched or set())
    if message is None:
        return None
    name, data = message.decode().splitlines()[:2]
    found: dict[str, Any] = json.loads(data.removeprefix("data: "))
    return name.removeprefix("event: "), found


def apply(state: dict[str, Any], told: dict[str, Any]) -> None:
    """As the map's script does."""
    for name, job in told["jobs"].items():
        if job is None:
            del state["jobs"][name]
        else:
            state["jobs"][name] = job
    for number, machine in told["machines"].items():
        state["machines"][int(number)] = machine
    for tier, place, load in told["links"]:
        state["links"][tier][place] = load
    state["counts"] = told["counts"]


def act(desk: Desk, what: str, number: int) -> None:
    names = list(desk.service.topology.names[0])
    if what == "submit":
        desk.submit(number, 60.0 * number, user=("ann", "bob")[number % 2])
    elif what == "cancel" and desk.backend.jobs:
        desk.backend.cancel_job(list(desk.backend.jobs)[number % len(desk.backend.jobs)])
    elif what in ("down", "up"):
        desk.backend.set_machine(names[number % len(names)], what)
    desk.cycle(30.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(steps=STEPS, caller=st.sampled_from((OPERATES, ANN)))
def test_changes_add_up(desks: Callable[..., Desk], steps: list[tuple[str, int]], caller: Caller) -> None:
    desk = desks("dally", "slow")
    channel = Channel(caller)
    first = news(channel, desk)
    assert first is not None
    assert first[0] == "hello"
    scene = desk.app.state.scene
    state = deepcopy(map_state(scene, caller).to_json(scene.boot))
    cycle = first[1]["cycle"]
    for what, number in steps:
        act(desk, what, number)
        told = news(channel, desk)
        if told is not None:
            assert (told[0], told[1]["after"]) == ("cycle", cycle)
            cycle = told[1]["cycle"]
            apply(state, told[1])
        now = json.loads(json.dumps(map_state(scene, caller).to_json(scene.boot)))
        assert {key: state[key] for key in ("jobs", "machines", "links", "counts")} == {
            key: now[key] for key in ("jobs", "machines", "links", "counts")
        }
        assert "bob" not in json.dumps(now["jobs"]) or caller is OPERATES


def test_nothing_is_said_of_turns_in_which_nothing_happened(desk: Desk) -> None:
    channel = Channel(OPERATES)
    news(channel, desk)
    desk.cycle()
    assert news(channel, desk) is None
    desk.submit(4)
    desk.cycle()
    told = news(channel, desk)
    assert told is not None
    assert told[1]["counts"]["running"] == 1


def test_users_hear_of_their_own_jobs_alone(desk: Desk) -> None:
    channel = Channel(ANN)
    news(channel, desk)
    hers, his = desk.submit(4, user="ann"), desk.submit(4, user="bob")
    desk.cycle()
    told = news(channel, desk, {hers, his})
    assert told is not None
    assert told[1]["touched"] == [hers]
    assert set(told[1]["jobs"]) >= {hers}
    assert his not in told[1]["jobs"]
    for job_id in (hers, his):
        desk.backend.cancel_job(job_id)
    desk.cycle()
    ended = news(channel, desk, {hers, his})
    assert ended is not None
    assert ended[1]["touched"] == [hers]


def test_who_is_too_far_behind_begins_anew() -> None:
    channel = Channel(OPERATES)
    inbox: asyncio.Queue[bytes] = asyncio.Queue(MOST_BEHIND)
    channel.listeners.add(inbox)
    for number in range(MOST_BEHIND + 1):
        channel.send(f"event: cycle\ndata: {number}\n\n".encode())
    assert inbox.qsize() == 1
    assert inbox.get_nowait().startswith(b"event: behind\n")


def test_another_topology_is_another_boot(desk: Desk, desks: Callable[..., Desk]) -> None:
    channel = Channel(OPERATES)
    first = news(channel, desk)
    desk.service.topology = desks().service.topology
    desk.cycle()
    again = news(channel, desk)
    assert first is not None
    assert again is not None
    assert again[0] == "hello"
    assert again[1]["boot"] != first[1]["boot"]


def test_who_comes_while_another_leaves_is_told_of_cycles(desk: Desk) -> None:
    async def listen() -> bytes:
        streams: Streams = desk.app.state.streams
        leaves, stays = streams.listen(OPERATES, operates), streams.listen(OPERATES, operates)
        begun = asyncio.create_task(anext(stays))  # in a thread it looks how things stand, and meanwhile
        await anext(leaves)
        await leaves.aclose()
        await begun
        desk.submit(8)
        await asyncio.to_thread(desk.cycle)
        async with asyncio.timeout(20.0):
            found = await anext(stays)
        streams.close()
        return found

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, listen()).result().startswith(b"event: cycle\n")


def test_who_comes_late_is_told_the_time(desk: Desk) -> None:
    """Of now, not of the last change."""
    channel, scene = Channel(OPERATES), desk.app.state.scene
    channel.begin(scene)
    desk.cycle(500.0)
    assert news(channel, desk) is None
    assert channel.state is not None
    assert f'"wall_s":{scene.status(None).wall_s}' in hello(scene, channel.state).decode()


def test_a_stream_is_told_nothing_once_its_token_was_removed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)
    monkeypatch.setattr(event_streams, "AWAKE_S", 0.05)
    desk.token("other", "operator")
    header = desk.token("op", "operator")
    found: list[bytes] = []

    async def browse() -> None:
        """As a server would ask."""
        asked = asyncio.Queue[Any]()
        asked.put_nowait({"type": "http.request"})

        async def send(message: Any) -> None:
            found.append(message.get("body", b""))
            if b"event: awake" in found[-1]:
                with suppress(InputError):  # the second time
                    remove_token(desk.service.store, "op")

        authorized = (b"authorization", header["Authorization"].encode())
        scope = {"type": "http", "method": "GET", "path": "/events", "query_string": b"", "headers": [authorized]}
        async with asyncio.timeout(20.0):
            await desk.app(scope, asked.get, send)
        desk.app.state.streams.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, browse()).result()
    assert sum(b"event: awake" in piece for piece in found) == 1


def test_a_stream_says_hello_tells_of_turns_and_ends_with_the_server(desk: Desk) -> None:
    async def listen() -> list[bytes]:
        streams: Streams = desk.app.state.streams
        found = []
        async for message in streams.listen(OPERATES, operates):
            found.append(message)
            if len(found) == 1:
                desk.submit(8)
                await asyncio.to_thread(desk.cycle)
            else:
                streams.close()
        return found

    with ThreadPoolExecutor(1) as thread:  # a browser open in this process keeps the main thread's loop running
        hello, cycle = thread.submit(asyncio.run, listen()).result()
    assert hello.startswith(b"retry: 1000\nevent: hello\n")
    assert cycle.startswith(b"event: cycle\n")
