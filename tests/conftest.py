"""Says which build is under test, where the shared data is, and opens the browser."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from dally import is_compiled
from tests.examples import many

# Threads of scikit-learn and torch spin while others work: there are more processes than cores already.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Hypothesis also draws constants of the modules that happen to be loaded, so that examples would depend on which
# tests ran before in the same process. Without those, "derandomize" gives the same examples each time.
assert hasattr(providers, "is_local_module_file")
providers.is_local_module_file = lambda path: False
settings.register_profile("dally", deadline=None, derandomize=True, database=None, max_examples=many(100))
settings.load_profile("dally")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DIED = pytest.StashKey[bool]()
SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_configure(config: pytest.Config) -> None:
    expected = os.environ.get("DALLY_EXPECT")
    if expected and (expected == "compiled") != is_compiled():
        pytest.exit(f"expected the {expected} build, found {'compiled' if is_compiled() else 'uncompiled'}", 3)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked `once` to the run of the compiled build."""
    if os.environ.get("DALLY_EXPECT") == "uncompiled":
        left_out = [item for item in items if item.get_closest_marker("once")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of several processes each takes a group of tests that share something, or single ones."""
    from tests.together import Together

    return Together(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """A test that ended its process, by a crash or at its time limit, ends the run: others need not go on."""
    pytest.exit(f"{crashitem} ended its process", 1)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    if error:
        node.config.stash[DIED] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that died between tests is a failure, too."""
    if session.config.stash.get(DIED, False):
        session.exitstatus = session.exitstatus or 1


def pytest_collection_finish() -> None:
    keep_what_is_there()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        keep_what_is_there()


def keep_what_is_there() -> None:
    """What is imported stays: every run looks for garbage first, and would go through all of it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def shared() -> Path:
    """The folder of real data; tests that need it are skipped where it is absent."""
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is not here")
    return SHARED


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium; missing, an error in CI and a skip elsewhere."""
    if not (Path(CHROMIUM).exists() or shutil.which("chromium")):
        message = "Chromium is not here: ./scripts/system-packages test installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = CHROMIUM if Path(CHROMIUM).exists() else shutil.which("chromium")
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()
