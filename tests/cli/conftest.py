"""Runs the command line as a user does: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def dally(tmp_path: Path) -> Run:
    """Call it with arguments; it runs in an empty folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dally", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
