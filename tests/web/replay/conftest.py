"""A simulated day, and its pages in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload
from dally.web.replay.replay_app import ReplayScene, replay_app
from dally.web.server import LocalServer
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DAY_S = 86_400.0


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> FolderRecord:
    """Dally on 64 GPUs from midnight to midnight, with a machine that fails."""
    folder = tmp_path_factory.mktemp("day")
    trace = folder / "day.csv"
    write_workload(trace, generate(find_recipe("venus-like"), WorkloadRequest(seed=2, jobs=120, load=1.2, gpus=64)))
    (folder / "down.csv").write_text("machine,fail_s,repair_s\nrack0-m0,30000,50000\n")
    scenario = Scenario(
        str(trace), "2x4x8", "dally", network="slow", failures=str(folder / "down.csv"), until_s=DAY_S
    )
    execute(scenario, out=folder / "run")
    return FolderRecord(folder / "run")


class Reader(Visitor):
    """A visitor of a replay; `at_once`: how many questions about the map were open, each time one was asked."""

    def __init__(self, browser: Browser, url: str, width: int, scheme: str) -> None:
        super().__init__(browser, url, width, scheme)
        self.at_once: list[int] = []
        self._open: set[Any] = set()
        self.page.on("request", self._began)
        for end in ("requestfinished", "requestfailed"):
            self.page.on(end, lambda request: self._open.discard(request))

    def _began(self, request: Any) -> None:
        if "/map/state.json" in request.url:
            self._open.add(request)
            self.at_once.append(len(self._open))

    def state(self) -> dict[str, Any]:
        """Where the replay is."""
        found: dict[str, Any] = self.page.evaluate("({...dally.replay, now_s: performance.now() / 1000})")
        return found

    def holds(self, what: str) -> None:
        """Wait until it is so."""
        self.until(lambda: self.page.evaluate(f"() => Boolean({what})"))

    def settled(self) -> None:
        """Wait until all of the page is of the moment that the bar shows."""
        self.holds("window.dally?.replay?.settled")

    def seek(self, at_s: float) -> None:
        """As if somebody had pulled the slider there."""
        self.page.evaluate("at => dally.replay.seek(at)", at_s)
        self.holds(f"dally.replay.settled && dally.replay.at_s === {at_s}")

    def counts(self) -> dict[str, int]:
        """The figures at the top."""
        names = ("busy", "gpus", "running", "waiting", "held")
        return {name: int(self.count(name)) for name in names}


Read = Callable[..., Reader]


@pytest.fixture(scope="session")
def url(day: FolderRecord) -> Iterator[str]:
    """Where the day is shown."""
    server = LocalServer(replay_app(ReplayScene(day, day.folder.name)), "127.0.0.1:0")
    server.start()
    yield server.url
    server.stop()


@pytest.fixture
def read(browser: Browser, url: str) -> Iterator[Read]:
    """Call it with a path: the page, settled. Console errors and requests to elsewhere fail the test."""
    readers: list[Reader] = []

    def show(path: str, width: int = 1280, scheme: str = "light") -> Reader:
        reader = Reader(browser, url, width, scheme)
        readers.append(reader)
        reader.go(path)
        reader.settled()
        return reader

    yield show
    for reader in readers:
        reader.leave()
