"""The vocabulary of shared/words.md: words of a private dialect are no names in src/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "dally"
# Each with what to say instead.
INSTEAD = {
    "ahead": "forecast, or the noun that is meant",
    "asked": "request, order, demand",
    "board": "status, snapshot",
    "book": "record, entry, ledger",
    "desk": "tenant, queue",
    "doorman": "auth",
    "found": "result, match, candidate, allocation, …",
    "given": "options, arguments",
    "kept": "the noun that is meant",
    "mend": "reconcile",
    "news": "rows, changes",
    "shut": "unschedulable",
    "stays": "non_preemptible",
    "story": "explanation, history",
    "told": "observed, or the noun that is meant",
    "truth": "observed",
    "turn": "cycle",
    "wanted": "desired, intent, PendingOrder",
    "withheld": "unschedulable",
    "word": "override, or text, label, message",
}
PLURALS = {"stories": "story", "mends": "mend"} | {f"{name}s": name for name in INSTEAD}
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that a file gives to something, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def forbidden(name: str) -> str:
    """The word of the dialect in a name; empty if there is none."""
    parts = [part.lower() for part in PARTS.findall(name)]
    return next((part for part in (PLURALS.get(part, part) for part in parts) if part in INSTEAD), "")


def test_no_name_is_of_the_private_dialect() -> None:
    places = []
    for path in sorted(SOURCE.rglob("*.py")):
        here = path.relative_to(SOURCE)
        for line, name in [(1, path.stem), *names(ast.parse(path.read_text(encoding="utf-8")))]:
            word = forbidden(name)
            if word:
                places.append(f"{here}:{line} {name}: say {INSTEAD[word]}")
    assert not places, f"{len(places)} names:\n" + "\n".join(places)


def test_words_are_seen_in_names() -> None:
    assert forbidden("JobWanted") == "wanted"
    assert forbidden("_told_tiers") == "told"
    assert forbidden("STORIES") == "story"
    assert forbidden("returned_s") == forbidden("foundation") == ""
