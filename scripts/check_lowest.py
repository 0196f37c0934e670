"""Installs the lowest versions that pyproject.toml allows (constraints-lowest.txt), and uses Dally with them.

usage: python scripts/check_lowest.py FOLDER    (make lowest)

FOLDER is the virtual environment, made if it is not there. src/ runs there as plain Python. The newest versions are
those of constraints.txt, which all other tests run with.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

ROOT = Path(__file__).resolve().parents[1]
LOWEST = ROOT / "constraints-lowest.txt"
# Of ray, torch and what only development needs, the newest alone is tested: they are large, and few install them.
EXTRAS = ("report", "live", "figures", "kubernetes", "policies", "postgresql", "testing")
SERVE_S = 60.0  # until a daemon answers, on a busy machine
IMPORT_ALL = """
import importlib, pkgutil, dally
for module in pkgutil.walk_packages(dally.__path__, "dally."):
    if not module.name.startswith(("dally.profiling.", "dally.live.store.migrations.")):  # torch; alembic's own
        importlib.import_module(module.name)
"""


def install(folder: Path) -> Path:
    """The Python of a virtual environment with these versions; kept while they stay the same."""
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    named = [sys.executable, str(ROOT / "scripts" / "requirements.py"), *EXTRAS]
    asked = subprocess.run(named, check=True, capture_output=True, text=True).stdout
    wanted = asked + LOWEST.read_text(encoding="utf-8")
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        venv.create(folder, with_pip=True, clear=True)
        (folder / "requirements.txt").write_text(asked, encoding="utf-8")
        pip = [
            str(python),
            "-m",
            "pip",
            "--quiet",
            "--quiet",
            "--disable-pip-version-check",
            "install",
            "--no-compile",
        ]
        subprocess.run([*pip, "-c", str(LOWEST), "-r", str(folder / "requirements.txt")], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return python


class Smoke:
    """Dally under one Python, in a folder of its own."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python = [str(python), "-W", "ignore"]  # what is old warns of what is new
        self.folder = folder
        self.env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder)}

    def run(self, *words: str) -> str:
        """What it prints; it must end well."""
        done = subprocess.run([*self.python, *words], cwd=self.folder, env=self.env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def dally(self, *words: str) -> str:
        """The same, of a command."""
        return self.run("-m", "dally", *words)

    def imports(self) -> None:
        """Every module."""
        self.run("-c", IMPORT_ALL)

    def simulates(self) -> None:
        """Help, a run with its tables and report, figures of it, and a policy that needs scikit-learn."""
        if "simulate" not in self.dally("--help") or "--policy" not in self.dally("simulate", "--help"):
            sys.exit("help does not list commands and options")
        self.dally("trace", "generate", "philly-like", "--jobs", "60", "--out", "jobs.csv")
        run = ("--trace", "jobs.csv", "--cluster", "2x4x8", "--network", "slow")
        self.dally("simulate", *run, "--out", "run")
        self.dally("report", "run", "--out", "again.html")
        self.dally("report", "run", "--figures", "figures", "--format", "svg")
        self.dally("simulate", *run, "--policy", "a-srpt", "--set", "predictor=forest")
        for made in ("run/report.html", "again.html", "figures"):
            if not (self.folder / made).exists():
                sys.exit(f"{made} was not written")

    def serves(self) -> None:
        """A daemon of the local backend takes a job and ends it, and its pages and metrics answer."""
        words = ["-m", "dally", "serve", "--cluster", "1x2x8", "--folder", "state", "--listen", "127.0.0.1:0"]
        log = self.folder / "serve.log"
        with log.open("w") as file:
            daemon = subprocess.Popen(
                [*self.python, *words], cwd=self.folder, env=self.env, stdout=file, stderr=subprocess.STDOUT
            )
        try:
            url = self._until(log, daemon)
            self.dally("submit", "--server", url, "--gpus", "8", "--", "true")
            for page in ("/api/v1/status", "/readyz", "/metrics", "/", "/jobs/1"):
                urllib.request.urlopen(url + page, timeout=SERVE_S).read()
            self.dally("queue", "--server", url)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(SERVE_S)

    def _until(self, log: Path, daemon: subprocess.Popen[bytes]) -> str:
        """Where it listens, once it says so."""
        end = monotonic() + SERVE_S
        while monotonic() < end and daemon.poll() is None:
            for word in log.read_text(encoding="utf-8").split():
                if word.startswith("http://127.0.0.1:"):
                    return word.rstrip(".,;/")
            sleep(0.1)
        sys.exit(f"the daemon does not answer: {log.read_text(encoding='utf-8')}")


def check(python: Path) -> None:
    """All of it, two at a time."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        smoke = Smoke(python, Path(name))
        steps = [pool.submit(step) for step in (smoke.simulates, smoke.serves, smoke.imports)]
        for step in steps:
            step.result()


def main(words: Sequence[str]) -> None:
    """Install, use, and say how long it took."""
    [folder] = words
    began = monotonic()
    python = install(Path(folder).resolve())
    installed_s = monotonic() - began
    check(python)
    print(f"lowest versions: installed in {installed_s:.0f} s, used in {monotonic() - began - installed_s:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
