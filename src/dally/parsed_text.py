"""JSON and switches parsed, or an error that says where they are broken; and what values of files may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError, at
from dally.input_file import shown

DEEPEST: Final = 100  # tables and lists inside each other; error messages and copies go down as far
LEAST, MOST = -(2**63), 2**63 - 1  # of whole numbers, as TOML has it


def parse_json(path: Path, text: str) -> dict[str, Any]:
    """The object that the text is, or an InputError."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise at(path, error.lineno, None, f"broken JSON: {error.msg}") from None
    except RecursionError:
        raise at(path, None, None, "broken JSON: nested too deep") from None
    except ValueError:  # a number of thousands of digits
        raise at(path, None, None, "broken JSON: a number is too long") from None
    if not isinstance(value, dict):
        raise at(path, None, None, f"{shown(value)}: must be a JSON object")
    return value


def whole_64(what: str, value: int) -> int:
    """The number, if it has at most 64 bits; `what` says where it stands."""
    if not LEAST <= value <= MOST:
        raise InputError(f"{what}: {shown_whole(value)}: must be a whole number of at most 64 bits")
    return value


def shown_whole(value: int) -> str:
    """The number as a message shows it; Python itself writes none of more than 4,300 digits."""
    return shown(value) if value.bit_length() < 10_000 else f"{hex(value)[:40]}…"


def check_values(path: Path, tables: dict[str, Any]) -> None:
    """InputError for what is nested too deep, and for whole numbers that are too large."""
    todo: list[tuple[str, object, int]] = [("", tables, 0)]
    while todo:
        name, value, depth = todo.pop()
        if isinstance(value, int):
            whole_64(f"{path}: {name}", value)
        if not isinstance(value, (dict, list)):
            continue
        if depth > DEEPEST:
            raise at(path, None, name.split(".", 1)[0], f"nested more than {DEEPEST} deep")
        rows = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in rows:
            inner = f"{name}[{key}]" if isinstance(key, int) else f"{name}.{key}".lstrip(".")
            todo.append((inner if depth < 3 else name, item, depth + 1))


def object_in(path: Path, where: str, row: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; an empty one if it is missing."""
    value = row.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise at(path, None, f"{where}.{key}", f"{shown(value)}: must be an object")
    return value


def objects_in(path: Path, row: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of the list under a key."""
    value = row.get(key)
    if not isinstance(value, list):
        raise at(path, None, key, f"{shown(value)}: must be a list")
    for place, item in enumerate(value):
        if not isinstance(item, dict):
            raise at(path, None, f"{key}[{place}]", f"{shown(item)}: must be an object")
    return value


def texts_in(path: Path, where: str, row: dict[str, Any], key: str) -> list[str]:
    """The texts of the list under a key; none if it is missing."""
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise at(path, None, f"{where}.{key}", f"{shown(value)}: must be a list of names")
    return value


def text_in(path: Path, where: str, row: dict[str, Any], key: str) -> str:
    """The text under a key."""
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise at(path, None, f"{where}.{key}", "missing" if value is None else f"{shown(value)}: must be text")
    return value


ACCEPTED: Final = "on or off"  # in errors: the other spellings need no telling
_SWITCH: Final = {
    "on": True, "true": True, "yes": True, "1": True,
    "off": False, "false": False, "no": False, "0": False,
}  # fmt: skip


def is_on(value: object) -> bool:
    """Whether a switch, given as text or as what TOML calls true and false, is on; ValueError if it is none."""
    try:
        return _SWITCH[str(value).strip().lower()]
    except KeyError:
        raise ValueError(f"{value!r}: must be {ACCEPTED}") from None
