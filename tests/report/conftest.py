"""A real browser without a network, and folders to report on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dally
from dally.runs.scenario import Scenario
from tests.report.folders import ROOT, demo_trace, make_comparison, make_run, make_sweep

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARTIFACTS = ROOT / "artifacts"
Open = Callable[..., "Page"]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Call it with a file: the page once all is drawn. Console errors and requests fail the test."""
    wrong: list[str] = []
    contexts = []

    def show(path: Path, width: int = 1280, height: int = 900, scheme: str = "light", at: str = "") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
        )
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request", lambda asked: wrong.append(asked.url) if asked.url.split("#")[0] != path.as_uri() else None
        )
        page.goto(path.as_uri() + at)
        page.wait_for_function("window.dally && window.dally.ready")
        return page

    yield show
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    return demo_trace(tmp_path_factory.mktemp("trace"), 300)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, trace: str) -> Path:
    """A run of dally with a failure in it."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "down.csv").write_text("machine,fail_s,repair_s\nrack0-m0,90000,120000\n")
    scenario = Scenario(trace, "3x3x8", "dally", network="slow", failures=str(folder / "down.csv"))
    make_run(folder, scenario)
    return folder


@pytest.fixture(scope="session")
def comparison_folder(tmp_path_factory: pytest.TempPathFactory, trace: str) -> Path:
    """Four policies on two networks, with two seeds."""
    folder = tmp_path_factory.mktemp("comparison")
    return make_comparison(folder, trace, seeds=(1, 2), networks=("slow", "fast"), cluster="3x3x8")


@pytest.fixture(scope="session")
def sweep_folder(tmp_path_factory: pytest.TempPathFactory, trace: str) -> Path:
    return make_sweep(tmp_path_factory.mktemp("sweep"), trace, (600, 7200), (0.0, 60.0))


@pytest.fixture(scope="session")
def whatif_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whatif")
    slurm = ROOT / "examples" / "slurm"
    dally.whatif(
        slurm / "sacct.txt", slurm / "topology.conf", current="fifo-backfill", network="slow", seeds=[1, 2], out=out
    )
    return out
