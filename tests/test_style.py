"""What the house asks of its own code, as far as a program can tell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "dally"
LONGEST = 60  # lines of a function
LONGEST_FILE = 500
# Files of one name in different folders that are about the same thing, or that a command is named after.
SAME_NAME = {
    "__init__", "acts", "base", "batch", "benchmark", "cycle", "delay", "explain", "formats", "local",
    "network", "outlook", "policies", "queue", "registry", "report", "simulate", "slots", "slurm", "submit",
    "sweep", "tiresias", "toml_file", "topology", "trends", "trial", "view", "whatif",
}  # fmt: skip


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", node


def test_functions_are_short() -> None:
    sizes = {name: (node.end_lineno or 0) - node.lineno + 1 for name, node in functions()}
    assert len(sizes) > 1000
    assert not {name: size for name, size in sizes.items() if size > LONGEST}


def test_files_are_short() -> None:
    sizes = {path.relative_to(SOURCE): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert not {path: size for path, size in sizes.items() if size > LONGEST_FILE}


def test_no_two_modules_share_a_name_for_different_things() -> None:
    places: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        places.setdefault(path.stem, []).append(path.relative_to(SOURCE))
    assert not {name: here for name, here in places.items() if len(here) > 1 and name not in SAME_NAME}


def test_no_two_classes_share_a_name() -> None:
    """Private classes too: a traceback, a pickle and a search say the name without its file."""
    places: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert len(places) > 500
    assert not {name: here for name, here in places.items() if len(here) > 1}
