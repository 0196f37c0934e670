"""Standard output that takes nothing: closed, full, or a pipe that nobody reads; and locales without Unicode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run

COMMANDS = ("policies", "--version", "topology show 2x2x4 --json")


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """What bash makes of the line, in which `dally` is this one."""
    return subprocess.run(
        ["bash", "-c", f'dally() {{ "{sys.executable}" -m dally "$@"; }}; {line}'],
        env={**os.environ, **environment}, capture_output=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_behind_stdout(command: str) -> None:
    done = shell(f"dally {command} > /dev/full")
    assert (done.returncode, done.stderr) == (2, b"dally: stdout: cannot be written: No space left on device\n")


def test_a_closed_stdout() -> None:
    done = shell("dally policies >&-")
    assert done.returncode == 2
    assert done.stderr == b"dally: stdout: is closed; `> /dev/null` throws away what is printed\n"
    assert shell("dally policies 2>&- > /dev/null").returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_has_seen_enough(command: str) -> None:
    done = shell(f"dally {command} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_a_locale_without_unicode(environment: dict[str, str], tmp_path: Path) -> None:
    done = shell("dally policies", **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    refused = shell(f"dally simulate --trace {tmp_path}/ñö.csv --cluster 1x2x4", **environment)
    assert refused.returncode == 2
    assert refused.stderr.count(b"\n") == 1


def test_a_message_is_one_line(dally: Run) -> None:
    done = dally("simulate", "--trace", "a\nb" * 3000, "--cluster", "1x2x4")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1100
