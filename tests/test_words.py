"""The vocabulary of shared/words.md: words of a private dialect are no names in src/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dally"
# Each in all its forms, with what to say instead. Verbs that are good names of functions are in FORMS without the
# bare verb: `find_recipe()` is one, and a value named `found` is not.
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
    "looking": "forecast, or the noun that is meant",
    "mend": "reconcile, repair",
    "news": "rows, changes",
    "said": "text, facts, the noun that is meant",
    "shut": "unschedulable",
    "somebody": "user, job, or the noun that is meant",
    "stands": "reservation, state, or the noun that is meant",
    "stays": "non_preemptible",
    "story": "explanation, history",
    "told": "observed, or the noun that is meant",
    "truth": "observed",
    "turn": "cycle",
    "wanted": "desired, intent, PendingOrder",
    "withheld": "unschedulable, set_aside",
    "word": "override, or text, label, message",
}
FORMS = {
    "asked": "asks asking",
    "book": "books booked booking bookings",
    "doorman": "doormen",
    "found": "finds finding findings",
    "given": "gives giving",
    "kept": "keeps keeping keeper keepers",
    "looking": "looked looks",
    "mend": "mends mended mending mender menders",
    "said": "says saying",
    "shut": "shuts shutting",
    "somebody": "nobody anybody everybody whom whose",
    "stays": "stay stayed staying",
    "story": "stories",
    "told": "tell tells telling teller tellers",
    "turn": "turned turning",
    "wanted": "want wants wanting",
    "withheld": "withhold withholds withholding",
}
FORM_OF = {f"{word}s": word for word in INSTEAD} | {
    form: word for word, forms in FORMS.items() for form in forms.split()
}
PAIRS = {(verb, "out"): "delay, decline" for verb in ("hold", "holds", "holding")}
LOOKS_LIKE = "looks_like"  # whether a file is of a format: of the contract of readers
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


def instead(name: str) -> str:
    """What to say instead of a word of the dialect in a name; empty if there is none."""
    parts = [part.lower() for part in PARTS.findall(name.replace(LOOKS_LIKE, ""))]
    words = (INSTEAD.get(FORM_OF.get(part, part), "") for part in parts)
    pairs = (PAIRS.get(pair, "") for pair in pairwise(parts))
    return next(filter(None, chain(words, pairs)), "")


def test_no_name_is_of_the_private_dialect() -> None:
    places = []
    for path in sorted(SOURCE.rglob("*.py")):
        here = path.relative_to(SOURCE)
        for line, name in [(1, path.stem), *names(ast.parse(path.read_text(encoding="utf-8")))]:
            better = instead(name)
            if better:
                places.append(f"{here}:{line} {name}: say {better}")
    assert not places, f"{len(places)} names:\n" + "\n".join(places)


@pytest.mark.parametrize(
    "name", ["JobWanted", "_told_tiers", "STORIES", "mending", "holds_out_s", "Asks", "keeps_back"]
)
def test_words_are_seen_in_names(name: str) -> None:
    assert instead(name)


@pytest.mark.parametrize("name", ["returned_s", "foundation", "find_recipe", "held_out", "looks_like", "keyword"])
def test_other_names_are_fine(name: str) -> None:
    assert not instead(name)


# Words of pages and messages that a reader would have to look up, each as a pattern with what to say instead.
PROSE = {
    r"told|telling|tells? of": "reported, shown, stated, lists",
    r"(?:some|any|every|no)body|someone|whoever|whom": "the user, the job, or the noun that is meant",
    r"(?:those|jobs?|gangs?|machines?|polic(?:y|ies)|requests?) who": "jobs that …",
    r"but for|at whose expense|as its user says": "except, at the cost of",
    r"stands?(?! (?:for|by|in)\b)": "is",
    r"desks?|doorm[ae]n": "queue, authentication",
    r"stor(?:y|ies)": "history, explanation",
    r"mend(?:s|ed|ing)?": "fix, repair, reconcile",
    r"withheld|with news|are news|is news": "unschedulable, changes",
    r"(?:first|back|next|place|wait|waits) in line": "in the queue",
    r"holds? out|holding out|gives? way|gave way": "declines, waits, is preempted",
    r"set right|(?:kept|keeps?) aside": "reconciled, held out",
    r"so (?:many|long)(?! (?:as|that|a)\b)": "this many, this long",
    r"(?:its|short|takes?|taking|by) turns?": "time slice, cycle, place in the queue",
    r"anew|came of it|no more than that": "again, the outcome",
}
FORBIDDEN_PROSE = re.compile(
    "|".join(f"(?P<w{place}>\\b(?:{words})\\b)" for place, words in enumerate(PROSE)), re.I
)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|^ {4,}.*$|\"[^\"\n]*\" \*\*", re.M | re.S)
ROOT = Path(__file__).parents[1]
SHOWN_BY = ("cli", "live", "report", "web", "sweep", "policies", "quotas", "traces", "cluster", "runs")  # to users


def prose_problems(text: str) -> Iterator[tuple[int, str]]:
    """Every forbidden word of a text, by line, with what to say instead."""
    for hit in FORBIDDEN_PROSE.finditer(text):
        place = next(place for place in range(len(PROSE)) if hit[f"w{place}"])
        yield text.count("\n", 0, hit.start()) + 1, f"{hit[0]!r}: say {list(PROSE.values())[place]}"


def pages() -> Iterator[tuple[str, str]]:
    """Names and texts of the pages, without code, and of a changelog its unreleased part."""
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        yield path.name, CODE.sub(lambda code: "\n" * code[0].count("\n"), path.read_text(encoding="utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## [")
    yield "CHANGELOG.md", CODE.sub(lambda code: "\n" * code[0].count("\n"), changes[1])
    for path in sorted(SOURCE.rglob("*.html")):
        yield path.name, re.sub(r"<[^>]*>", "", path.read_text(encoding="utf-8"))


def messages() -> Iterator[tuple[str, int, str]]:
    """Texts of several words in the source that may be shown to users, docstrings aside."""
    for path in (path for part in SHOWN_BY for path in sorted((SOURCE / part).rglob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
                yield str(path.relative_to(SOURCE)), node.lineno, node.value if " " in node.value.strip() else ""


def test_pages_use_the_words_of_the_field() -> None:
    problems = [f"{name}:{line} {what}" for name, text in pages() for line, what in prose_problems(text)]
    assert not problems, f"{len(problems)} words:\n" + "\n".join(problems)


def test_messages_use_the_words_of_the_field() -> None:
    problems = [f"{name}:{line} {what}" for name, line, text in messages() for _, what in prose_problems(text)]
    assert not problems, f"{len(problems)} words:\n" + "\n".join(problems)


def test_forbidden_prose_is_seen_and_the_rest_is_not() -> None:
    found = [
        what.partition(":")[0]
        for _, what in prose_problems("Jobs who wait\nare told so, but for one that stands by")
    ]
    assert found == ["'Jobs who'", "'told'", "'but for'"]
    assert not list(prose_problems("`nobody` stands for a user; as long as many stand by; in line 3"[8:]))
