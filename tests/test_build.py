"""The package builds where nothing but its build requirements is installed, as pip's isolated builds are."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


def compiled_files() -> list[Path]:
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    return [SOURCE / "dally" / name for name in re.findall(r'^    "([\w/]+\.py)",$', text, re.MULTILINE)]


def imported(path: Path) -> set[str]:
    """Names of the modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def own_file(module: str) -> Path | None:
    base = SOURCE / module.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def reached(files: list[Path]) -> dict[str, Path]:
    """Outside packages that mypy meets on its way from these files, and where."""
    found: dict[str, Path] = {}
    seen: set[Path] = set()
    todo = list(files)
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for module in imported(path):
            ours = own_file(module)
            if ours is not None:
                todo.append(ours)
            elif not module.startswith("dally"):
                found.setdefault(module.partition(".")[0], path)
    return found


def test_mypyc_needs_no_package_that_an_isolated_build_lacks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    required = " ".join(settings["build-system"]["requires"])
    optional = [name.partition(".")[0] for rule in settings["tool"]["mypy"]["overrides"] for name in rule["module"]]
    files = compiled_files()
    assert files
    missing = {
        name: path.relative_to(ROOT)
        for name, path in reached(files).items()
        if name not in sys.stdlib_module_names
        and name not in optional
        and name not in required
        and name not in ("mypy_extensions", "typing_extensions")  # come with mypy
    }
    assert not missing, f"an isolated build has no {missing}: mypy would stop there"
