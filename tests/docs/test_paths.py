"""Pages about the code are true: the files, folders, names, make targets and layers that they state exist."""

from __future__ import annotations

import ast
import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dally"
PAGES = ("CONTRIBUTING.md", "docs/architecture.md", "README.md")
PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.\w+)?|[\w-]+\.py)`")
DEFINED_IN = re.compile(r"`(\w+)` \(`([\w/]+\.py)`\)")
MADE_ON_BRANCHES = {"traces/readers/json_lines.py", "live/backends/timed.py"}  # "If you want to add …"
WRITTEN_BY_MAKE = {".venv/wheel/", "artifacts/", "site/"}
LAYERS = re.compile(r"^testing > .*$", re.MULTILINE)


def folders_of(line: str) -> list[Path]:
    """Where a path of this line may start: the repository, the package, and the folders that the line names."""
    named = [ROOT / path for path in PATH.findall(line) if path.endswith("/") and (ROOT / path).is_dir()]
    return [ROOT, ROOT / "src", SOURCE, *named]


def missing_paths(text: str) -> list[str]:
    """Paths in backticks that do not exist."""
    return [
        path
        for line in text.splitlines()
        for path in PATH.findall(line)
        if path not in MADE_ON_BRANCHES | WRITTEN_BY_MAKE
        and not any((folder / path).exists() for folder in folders_of(line))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(PATH.findall(text)) > 10
    assert not missing_paths(text)


def test_missing_paths_are_noticed() -> None:
    assert missing_paths("`engine/cycle.py`, `engine/no_such.py` and `src/dally/nowhere/`") == [
        "engine/no_such.py", "src/dally/nowhere/",
    ]  # fmt: skip


def test_names_are_defined_where_the_architecture_says() -> None:
    named = DEFINED_IN.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert len(named) >= 5
    for name, path in named:
        tree = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
        assert name in {getattr(node, "name", "") for node in ast.walk(tree)}, f"{name} is not defined in {path}"


def test_layers_are_those_that_lint_checks() -> None:
    stated = LAYERS.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert stated is not None
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter")
    checked = next(rules[name]["layers"] for name in rules.sections() if rules[name].get("type") == "layers")
    layers = [
        re.sub(r"\s*[:|]\s*", " | ", line.strip()).replace("dally.", "")
        for line in checked.split("\n")
        if line.strip()
    ]
    assert stated[0].split(" > ") == layers


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:`|^)make ([\w-]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, page


def test_no_page_has_marks_of_a_merge() -> None:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    assert len(pages) > 30
    marks = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    assert [page.name for page in pages if marks.search(page.read_text(encoding="utf-8"))] == []
