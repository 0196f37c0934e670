"""Installs a wheel where nothing else is, and uses it: no repository, no compiler. Prints times and sizes.

usage: python scripts/check_wheel.py dist/dally-*.whl
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
MOST_MB = 150.0  # of the core with all that it needs
NOT_OURS = ("pip", "setuptools", "_distutils_hack", "distutils-precedence.pth", "__pycache__")
BUILT_FROM = ("src", "setup.py", "pyproject.toml", "README.md", "LICENSE")


class Fresh:
    """A virtual environment outside the repository, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        venv.create(folder / "venv", with_pip=True)

    def pip(self, *words: str) -> None:
        """Run pip, with the versions that everything is tested with."""
        self.python("-m", "pip", "--quiet", "--disable-pip-version-check", *words)

    def dally(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the installed command; it must exit with that code."""
        return self._run([str(self.bin / "dally"), *words], {"PATH": str(self.bin), "HOME": str(self.folder)}, code)

    def python(self, *words: str) -> None:
        """Run its Python, where there is no compiler."""
        env = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "CC": "/no/compiler"}
        self._run([str(self.bin / "python"), *words], env)

    def _run(self, words: list[str], env: dict[str, str], code: int = 0) -> subprocess.CompletedProcess[str]:
        env.pop("PYTHONPATH", None)
        done = subprocess.run(words, cwd=self.folder, env=env, capture_output=True, text=True)
        if done.returncode != code:
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
        return done

    def megabytes(self) -> float:
        """Of what was installed."""
        [packages] = (self.folder / "venv" / "lib").glob("python*/site-packages")
        ours = [path for path in packages.iterdir() if not path.name.startswith(NOT_OURS)]
        files = [file for path in ours for file in ([path] if path.is_file() else path.rglob("*"))]
        return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def told(what: str, began: float, more: str = "") -> None:
    """Print how long it took."""
    print(f"{what:46} {perf_counter() - began:6.1f} s  {more}", flush=True)


def check_core(fresh: Fresh, wheel: Path) -> None:
    """The core alone: small, and it simulates and compares."""
    began = perf_counter()
    fresh.pip("install", str(wheel))
    size = fresh.megabytes()
    own = f"the wheel itself {wheel.stat().st_size / 1e6:.1f} MB"
    told("core installed", began, f"{size:.0f} MB of at most {MOST_MB:.0f}; {own}")
    if size > MOST_MB:
        sys.exit(f"the core takes {size:.0f} MB, more than {MOST_MB:.0f}")
    began = perf_counter()
    version = fresh.dally("--version").stdout.strip()
    fresh.dally("trace", "generate", "philly-like", "--jobs", "200", "--out", "jobs.csv")
    fresh.dally("simulate", "--trace", "jobs.csv", "--cluster", "2x4x8", "--network", "slow", "--json")
    compared = fresh.dally(
        "compare", "--trace", "jobs.csv", "--cluster", "2x4x8", "--policies", "all", "--replications", "1"
    )
    if "without a-srpt: predictor forest: sklearn is missing" not in compared.stderr:
        sys.exit(f"compare --policies all does not name what it leaves out: {compared.stderr!r}")
    refused = fresh.dally("demo", code=2).stderr
    if "pip install 'dally[report]'" not in refused or (fresh.folder / "demo-out").exists():
        sys.exit(f"demo does not say what it lacks: {refused!r}")
    told("core simulates and compares", began, version)


def check_demo(fresh: Fresh, wheel: Path) -> None:
    """With the extra `report`: the demo leaves a report."""
    began = perf_counter()
    fresh.pip("install", f"{wheel}[report]")
    told("extra report installed", began, f"{fresh.megabytes():.0f} MB with it")
    began = perf_counter()
    fresh.dally("demo", "--out", "demo-out")
    report = fresh.folder / "demo-out" / "report.html"
    told("dally demo", began, f"report of {report.stat().st_size / 1e6:.1f} MB")


def check_without_compiler(fresh: Fresh) -> None:
    """`python -m build` makes an sdist, and a wheel of it, where there is no compiler."""
    began = perf_counter()
    source = fresh.folder / "source"
    source.mkdir()
    for name in BUILT_FROM:
        found = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        (shutil.copytree(found, source / name, ignore=ignored) if found.is_dir() else shutil.copy(found, source))
    fresh.pip("install", "build")
    fresh.python("-m", "build", str(source))
    [wheel] = (source / "dist").glob("*.whl")
    told("built without a compiler", began, f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")
    began = perf_counter()
    fresh.pip("install", "--no-deps", "--force-reinstall", str(wheel))
    version = fresh.dally("--version").stdout.strip()
    fresh.dally("simulate", "--trace", "jobs.csv", "--cluster", "2x4x8", "--network", "slow", "--out", "plain")
    if not version.endswith("(not compiled)") or not (fresh.folder / "plain" / "report.html").exists():
        sys.exit(f"{version}: should be the one without a compiler, and leave a report")
    told("simulates and reports", began, version)


def main() -> None:
    """Check the wheel that the command line names."""
    [wheel] = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        fresh = Fresh(Path(folder))
        check_core(fresh, wheel)
        check_demo(fresh, wheel)
        check_without_compiler(fresh)


if __name__ == "__main__":
    main()
