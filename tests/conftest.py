"""Says which build is under test, and where the shared data is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from dally import is_compiled
from tests.examples import many

settings.register_profile("dally", deadline=None, derandomize=True, database=None, max_examples=many(100))
settings.load_profile("dally")

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


@pytest.fixture
def shared() -> Path:
    """The folder of real data; tests that need it are skipped where it is absent."""
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is not here")
    return SHARED
