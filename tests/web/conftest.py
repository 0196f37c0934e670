"""An API in this process, over a daemon on a cluster in memory whose clock the test moves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from dally.job_spec import JobSpec
from dally.live.assembly import Service
from dally.live.backends.base import Submission
from dally.live.config import Config, Setup
from dally.live.private_folder import user_name
from dally.testing.fake_backend import FakeBackend, FakeClock
from dally.web.app import make_app
from dally.web.auth.access import Access
from dally.web.auth.peers import Peer
from dally.web.auth.token_cache import TokenCache
from dally.web.auth.tokens import add_token
from dally.web.routes import jobs as job_routes
from dally.web.server import LocalServer
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HERE = "http://127.0.0.1:8642"
ME = user_name(os.geteuid())
OWNER = Peer(os.geteuid(), by_loopback=True, address="127.0.0.1")


class Client:
    """Asks an application of this process."""

    def __init__(self, app: Any, peer: Peer = OWNER) -> None:
        self._app = app
        self.peer = peer

    async def _connected(self, scope: Any, receive: Any, send: Any) -> None:
        """As the server's connections are: they know who is at the other end."""
        await self._app({**scope, "state": {"peer": self.peer}}, receive, send)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._connected, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
                return await client.request(method, path, **more)

        # In a thread of its own: a browser open in this process keeps the main thread's event loop running.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, ask()).result()

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def delete(self, path: str, **more: Any) -> httpx.Response:
        return self.request("DELETE", path, **more)


class OwnBackend(FakeBackend):
    """One of this test alone."""

    folder = ""

    def identity(self) -> str:
        return self.folder


class Desk:
    """A service and a client of its API."""

    def __init__(self, folder: Path, policy: str = "dally", network: str = "", **settings: Any) -> None:
        self.backend = OwnBackend(2, 2, 8)
        self.backend.folder = str(folder)
        folder.mkdir()
        self.config = Config(folder=folder, setup=Setup(policy, network=network), requests_per_s=100_000.0)
        self.config = replace(self.config, allow_root_jobs=True, **settings)  # tests may run as root
        self.service = Service(self.config, self.backend)
        self.service.clock = FakeClock(self.backend)
        self.keys = TokenCache(self.service.store)
        self.app = make_app(self.service, Access(self.keys, self.config))
        self.client = Client(self.app)
        self.cycle()

    def cycle(self, after_s: float = 1.0) -> None:
        self.backend.now_s += after_s
        self.service.daemon.run_cycle()

    def submit(self, gpus: int, seconds: float = 600.0, **facts: Any) -> str:
        return self.backend.submit(Submission(JobSpec(gpus, duration_s=seconds, **facts)))

    def token(self, name: str, role: str, user: str = "") -> dict[str, str]:
        """The header of a new token."""
        text = add_token(self.service.store, name, role, user)
        self.keys.read()
        return {"Authorization": f"Bearer {text}"}

    def get(self, path: str, **more: Any) -> Any:
        """What the API answers, as JSON."""
        found = self.client.get(f"/api/v1/{path}", **more)
        assert found.status_code == 200, found.text
        return found.json()


@contextmanager
def answering(desk: Desk) -> Iterator[str]:
    """Where the desk's pages are, for browsers."""
    server = LocalServer(desk.app, "127.0.0.1:0")
    server.start()
    yield server.url
    desk.app.state.streams.close()
    server.stop()


@contextmanager
def opened(desk: Desk) -> Iterator[tuple[Desk, str]]:
    """The desk, and where its pages are; closed after that."""
    with answering(desk) as url:
        yield desk, url
    desk.service.close()


@pytest.fixture
def visitor(browser: Browser, open_desk: tuple[Desk, str]) -> Iterator[Visitor]:
    """Of the pages of a module's own `open_desk`."""
    found = Visitor(browser, open_desk[1])
    yield found
    found.leave()


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles come when the test says so, not while a submission waits for one."""
    monkeypatch.setattr(job_routes, "VISIBLE_WITHIN_S", 0.0)


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Makes desks with a policy and a network."""
    made: list[Desk] = []

    def make(*arguments: Any, **settings: Any) -> Desk:
        made.append(Desk(tmp_path / str(len(made)), *arguments, **settings))
        return made[-1]

    yield make
    for one in made:
        one.service.close()


@pytest.fixture
def desk(desks: Callable[..., Desk]) -> Desk:
    return desks()
