"""The package builds where nothing but its build requirements is installed, as pip's isolated builds are.

`make test` also builds it, installs the wheel in a fresh virtual environment and uses it: scripts/check_wheel.py.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from dally import __version__
from dally.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_mypyc_needs_no_package_that_an_isolated_build_lacks() -> None:
    setup = runpy.run_path(str(ROOT / "setup.py"))
    words = [sys.executable, "-m", "mypy", *setup["MYPY"], *setup["sources"]()]
    assert "--no-site-packages" in words
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "MYPYPATH": "src"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_without_a_compiler_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = runpy.run_path(str(ROOT / "setup.py"))
    monkeypatch.setenv("CC", "/no/compiler")
    assert not setup["has_compiler"]()
    assert setup["extensions"]() == []


def test_what_is_compiled_and_how() -> None:
    setup = runpy.run_path(str(ROOT / "setup.py"))
    compiled = setup["compiled"]()
    assert {"heap.py", "engine/simulate.py", "policies/dally/policy.py"} <= set(compiled)
    assert not [name for name in setup["PLAIN"] if not (ROOT / "src" / "dally" / name).exists()]
    assert setup["level"]("build/__native_dally___policies___dally___policy.c") == ["-O1"]
    assert setup["level"]("build/__native_dally___engine___simulate.c") == []
    assert setup["level"]("build/dally/policies/dally/policy.c") == [], "what mypyc adds stays as it is"


def test_every_extra_that_is_asked_for_exists() -> None:
    assert set(EXTRAS.values()) <= set(PROJECT["project"]["optional-dependencies"])


def test_the_citation_is_of_this_version() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in cited
    assert f"\nlicense: {PROJECT['project']['license']}\n" in cited


def test_the_image_is_built_from_what_is_there() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [name for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE) for name in line.split()]
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in kept


def pins(name: str) -> dict[str, Version]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    named = [line.split("==") for line in lines]
    return {canonicalize_name(package): Version(version) for package, version in named}


def requirements(*extras: str) -> list[Requirement]:
    """Of the core and of these extras."""
    listed = [
        PROJECT["project"]["dependencies"],
        *(PROJECT["project"]["optional-dependencies"][name] for name in extras),
    ]
    return [Requirement(line) for lines in listed for line in lines]


CAPPED = {"librt"}  # tied to the compiler: pyproject.toml says why


def test_bounds_are_what_both_files_of_constraints_pin() -> None:
    lowest, newest = pins("constraints-lowest.txt"), pins("constraints.txt")
    tried = runpy.run_path(str(ROOT / "scripts" / "check_lowest.py"))["EXTRAS"]
    for wanted in requirements(*tried):
        name = canonicalize_name(wanted.name)
        bounds = {one.operator: Version(one.version) for one in wanted.specifier}
        assert bounds.keys() <= ({">=", "<"} if name in CAPPED else {">="}), wanted
        assert lowest[name] == bounds[">="], wanted
        assert newest[name] in wanted.specifier, wanted
        assert lowest[name] <= newest[name], wanted
    [kept] = [Requirement(line) for line in PROJECT["build-system"]["requires"] if line.startswith("librt")]
    assert newest["librt"] in kept.specifier, "compiled and run with one librt"


def test_no_other_extra_has_a_bound_that_the_newest_break() -> None:
    newest = pins("constraints.txt")
    for wanted in requirements(*PROJECT["project"]["optional-dependencies"]):
        assert newest[canonicalize_name(wanted.name)] in wanted.specifier, wanted


def test_benchmarks_are_run_as_modules() -> None:
    """The folder of a script hides modules of the library from it, such as types."""
    lines = [line.strip() for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()]
    commands = [line for line in lines if "benchmarks" in line and not line.startswith("#")]
    assert commands
    assert [line for line in commands if " -m benchmarks." not in line] == []
