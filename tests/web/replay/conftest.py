"""A simulated day, and its pages in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.traces.generate import Ask, find_recipe, generate, write_workload
from dally.web.replay.replay_app import replay_app
from dally.web.replay.replay_scene import ReplayScene
from dally.web.server import LocalServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DAY_S = 86_400.0


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> FolderRecord:
    """Dally on 64 GPUs from midnight to midnight, with a machine that fails."""
    folder = tmp_path_factory.mktemp("day")
    trace = folder / "day.csv"
    write_workload(trace, generate(find_recipe("venus-like"), Ask(seed=2, jobs=120, load=1.2, gpus=64)))
    (folder / "down.csv").write_text("machine,fail_s,repair_s\nrack0-m0,30000,50000\n")
    scenario = Scenario(
        str(trace), "2x4x8", "dally", network="slow", failures=str(folder / "down.csv"), until_s=DAY_S
    )
    execute(scenario, out=folder / "run")
    return FolderRecord(folder / "run")


@dataclass
class Reader:
    """A page, and what it asked for at once."""

    page: Page
    at_once: list[int] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate("({...dally.replay})")
        return found

    def until(self, what: str) -> None:
        """Wait until it is so; the page's policy forbids what wait_for_function does."""
        for _ in range(200):
            if self.page.evaluate(f"() => Boolean({what})"):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"not within 10 s: {what}")

    def seek(self, at_s: float) -> None:
        """As if somebody had pulled the slider there; all of the page is of that moment then."""
        self.page.evaluate("at => dally.replay.seek(at)", at_s)
        self.until(f"dally.replay.settled && dally.replay.at_s === {at_s}")

    def counts(self) -> dict[str, int]:
        places = self.page.locator(".strip [data-count]").all()
        return {str(place.get_attribute("data-count")): int(place.inner_text()) for place in places}


Read = Callable[..., Reader]


@pytest.fixture
def read(browser: Browser, day: FolderRecord) -> Iterator[Read]:
    """Call it with a path: the page, settled. Console errors and requests to elsewhere fail the test."""
    server = LocalServer(replay_app(ReplayScene(day, day.folder.name)), "127.0.0.1:0")
    server.start()
    wrong: list[str] = []
    contexts = []

    def show(path: str, width: int = 1280, scheme: str = "light") -> Reader:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if scheme == "dark" else "light"
        )
        contexts.append(context)
        page = context.new_page()
        reader = Reader(page)
        asked: set[Any] = set()

        def began(request: Any) -> None:
            if not request.url.startswith(server.url):
                wrong.append(request.url)
            if "/map/state.json" in request.url:
                asked.add(request)
                reader.at_once.append(len(asked))

        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", began)
        page.on("requestfinished", lambda request: asked.discard(request))
        page.on("requestfailed", lambda request: asked.discard(request))
        page.goto(server.url + path)
        reader.until("window.dally && dally.replay && dally.replay.settled")
        return reader

    yield show
    for context in contexts:
        context.close()
    server.stop()
    assert wrong == []
