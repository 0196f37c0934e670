"""Renders the templates of deploy/helm: the part of Helm's language that they use. Anything else is an error.

Values, Release, `if`, `else`, `range` over a mapping, `not`, `quote`, `toJson`, and dashes that trim white space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ACTION = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
RANGE = re.compile(r"range (\$\w+), (\$\w+) := (.+)")
PATH = re.compile(r"\.\w+(\.\w+)*")


class Token(NamedTuple):
    """Text, or an action."""

    text: str
    is_action: bool


def tokens(text: str) -> Iterator[Token]:
    """As the template has them, white space trimmed where dashes say so."""
    at, trim = 0, False
    for found in ACTION.finditer(text):
        before = text[at : found.start()]
        before = before.lstrip() if trim else before
        yield Token(before.rstrip() if found[1] else before, False)
        yield Token(found[2], True)
        at, trim = found.end(), bool(found[3])
    yield Token(text[at:].lstrip() if trim else text[at:], False)


class Template:
    """One file."""

    def __init__(self, text: str) -> None:
        self._tokens = list(tokens(text))
        self._at = 0

    def render(self, scope: dict[str, Any]) -> str:
        """The whole file."""
        self._at = 0
        result = self._block(scope, True)
        assert self._at == len(self._tokens), f"nothing is open here: {self._tokens[self._at].text}"
        return result

    def _block(self, scope: dict[str, Any], live: bool) -> str:
        """Until its `else` or `end`, which is left there; `live`: it counts."""
        result = ""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.is_action and token.text in ("else", "end"):
                break
            self._at += 1
            if not token.is_action:
                result += token.text
            elif token.text.startswith("if "):
                result += self._choice(token.text[3:], scope, live)
            elif token.text.startswith("range "):
                result += self._each(token.text, scope, live)
            elif live:
                result += shown(value_of(token.text, scope))
        return result if live else ""

    def _choice(self, condition: str, scope: dict[str, Any], live: bool) -> str:
        holds = live and bool(value_of(condition, scope))
        result = self._block(scope, holds)
        if self._next() == "else":
            result += self._block(scope, live and not holds)
            assert self._next() == "end"
        return result

    def _each(self, text: str, scope: dict[str, Any], live: bool) -> str:
        found = RANGE.fullmatch(text)
        assert found, text
        begin, result = self._at, ""
        for name, value in sorted(value_of(found[3], scope).items()) if live else ():
            self._at = begin
            result += self._block({**scope, found[1]: name, found[2]: value}, True)
        if not result:
            self._at = begin
            self._block(scope, False)
        assert self._next() == "end"
        return result

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1].text


def value_of(text: str, scope: dict[str, Any]) -> Any:
    """Of a pipeline."""
    first, *filters = [part.strip() for part in text.split("|")]
    negated = first.startswith("not ")
    result = lookup(first.removeprefix("not "), scope)
    result = not result if negated else result
    for name in filters:
        assert name in ("quote", "toJson"), f"{name}: not in this part of Helm's language"
        result = json.dumps(result if name == "toJson" else shown(result), separators=(",", ":"), sort_keys=True)
    return result


def lookup(text: str, scope: dict[str, Any]) -> Any:
    """A variable, or a path from the top; one that is not there is an error, though Helm would let it pass."""
    if text in scope:
        return scope[text]
    assert PATH.fullmatch(text), f"{text}: not in this part of Helm's language"
    result: Any = scope
    for part in text.split(".")[1:]:
        result = result[part]
    return result


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """As `--set` and `--values` change them."""
    both = {
        name: merged(values[name], value) if isinstance(value, dict) else value for name, value in changes.items()
    }
    return {**values, **both}


def render(chart: Path, changes: dict[str, Any], namespace: str = "dally") -> list[dict[str, Any]]:
    """All objects of the chart."""
    values = merged(yaml.safe_load((chart / "values.yaml").read_text()), changes)
    scope = {"Values": values, "Release": {"Namespace": namespace}}
    texts = [Template(path.read_text()).render(scope) for path in sorted((chart / "templates").glob("*.yaml"))]
    return [entry for text in texts for entry in yaml.safe_load_all(text) if entry]
