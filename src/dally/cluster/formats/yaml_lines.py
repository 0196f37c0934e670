"""YAML with the line of every value: no tags, no types, and no depth that a parser could drown in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from dally.errors import at

MOST_DEPTH = 32


class Value(NamedTuple):
    """A text, a list or a mapping, and the line it begins in."""

    line: int
    of: str | list[Value] | dict[str, Value]


def parse_yaml(path: Path, text: str) -> Value:
    """The file's one document."""
    result = parse_documents(path, text)
    if len(result) > 1:
        raise at(path, result[1].line, None, "a second document: only one is expected")
    return result[0]


def parse_documents(path: Path, text: str) -> list[Value]:
    """The file's documents, at least one.

    Values are built from the parser's events: the composer that comes with libyaml crashes on deep nesting.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _documents(path, yaml.parse(text, Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise at(path, mark.line + 1 if mark else None, None, f"broken YAML: {problem}") from None


def _documents(path: Path, events: Any) -> list[Value]:
    """The values that the events spell out."""
    anchors: dict[str, Value] = {}
    open_values: list[Value] = []
    keys: list[str | None] = []  # of each open mapping, the key whose value comes next
    result: list[Value] = []
    for event in events:
        kind, line = type(event).__name__, event.start_mark.line + 1
        if kind in ("SequenceEndEvent", "MappingEndEvent"):
            open_values.pop()
            keys.pop()
        value = _value(path, event, kind, line, anchors)
        if value is None:
            continue
        if not open_values:
            result.append(value)
        elif isinstance(open_values[-1].of, list):
            open_values[-1].of.append(value)
        else:
            keys[-1] = _put(path, open_values[-1], keys[-1], value)
        if not isinstance(value.of, str) and kind != "AliasEvent":
            open_values.append(value)
            keys.append(None)
        if len(open_values) > MOST_DEPTH:
            raise at(path, line, None, f"nested more than {MOST_DEPTH} deep")
    if not result:
        raise at(path, None, None, "is empty")
    return result


def _value(path: Path, event: Any, kind: str, line: int, anchors: dict[str, Value]) -> Value | None:
    if kind == "AliasEvent":
        if event.anchor not in anchors:
            raise at(path, line, None, f"broken YAML: unknown alias {event.anchor!r}")
        return anchors[event.anchor]._replace(line=line)
    value: Value | None = None
    if kind == "ScalarEvent":
        value = Value(line, event.value)
    elif kind == "SequenceStartEvent":
        value = Value(line, [])
    elif kind == "MappingStartEvent":
        value = Value(line, {})
    if value is not None and event.anchor:
        anchors[event.anchor] = value
    return value


def _put(path: Path, mapping: Value, key: str | None, value: Value) -> str | None:
    """Take the value as the mapping's next key, or as the value of the key before; the key that waits then."""
    assert isinstance(mapping.of, dict)
    if key is not None:
        mapping.of[key] = value
        return None
    if not isinstance(value.of, str):
        raise at(path, value.line, None, "a key must be text")
    if value.of in mapping.of:
        raise at(path, value.line, value.of, "appears twice")
    return value.of
