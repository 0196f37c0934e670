"""A run of several processes ends when one of them does, and says with which test: it never hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG_S = 500  # longer than a run may take here
TESTS = """
import os, re, signal, time
def test_dies(): {}
def test_waits(): time.sleep({})
"""


def run(folder: Path, body: str, others_s: float, *options: str) -> subprocess.CompletedProcess[str]:
    """Two processes with the settings of this repository, one test for each."""
    (folder / "test_made.py").write_text(TESTS.format(body, others_s))
    words = ["-n", "2", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "tests.conftest"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    env = {**own, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, *options, "test_made.py"],
        cwd=folder, env=env, timeout=LONG_S / 2, capture_output=True, text=True,
    )  # fmt: skip


def test_a_test_that_ends_its_process_ends_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, "os.kill(os.getpid(), signal.SIGILL)", LONG_S)
    assert (done.returncode, "test_made.py::test_dies ended its process" in done.stdout) == (1, True), done.stdout


def test_a_process_that_dies_between_tests_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import os\ndef pytest_sessionfinish(): 'PYTEST_XDIST_WORKER' in os.environ and os._exit(0)\n"
    )
    done = run(tmp_path, "pass", 0)
    assert (done.returncode, "Not properly terminated" in done.stdout) == (1, True), done.stdout


def test_a_test_that_hangs_where_no_signal_is_heard_says_where(tmp_path: Path) -> None:
    done = run(tmp_path, "re.match('(a+)+b', 'a' * 60)", 0, "-o", "faulthandler_timeout=3")
    assert (done.returncode, "test_made.py::test_dies ended its process" in done.stdout) == (1, True), done.stdout
    assert 'test_made.py", line 3 in test_dies' in done.stderr
