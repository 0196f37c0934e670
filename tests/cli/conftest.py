"""Runs the command line as a user does; `dally_alone` in a process of its own, which takes half a second more."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dally.cli.main import app, exit_code

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def dally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Call it with arguments; it runs in an empty folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        capfd.readouterr()
        code = exit_code(arguments)
        gc.enable()  # a command that has the process to itself may turn it off
        told = capfd.readouterr()
        assert isinstance(code, int)
        return subprocess.CompletedProcess(arguments, code, told.out, told.err)

    return run


def printed(*arguments: str) -> str:
    """What the command prints on a wide terminal; what it raises is raised."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.fixture
def dally_alone(tmp_path: Path) -> Run:
    """The same in a process of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dally", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The file of the module's TRACE, in the folder that commands run in."""
    (tmp_path / "t.csv").write_text(request.module.TRACE)
    return "t.csv"


def refused(done: subprocess.CompletedProcess[str], message: str, folder: Path) -> None:
    """One line about bad input, and nothing left beside the trace."""
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["t.csv"]
