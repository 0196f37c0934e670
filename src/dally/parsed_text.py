"""TOML and JSON of which nothing is known yet: parsed, or an error that says where it is broken."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError, at
from dally.input_file import shown

DEEPEST: Final = 100  # tables and lists inside each other; error messages and copies go down as far
LEAST, MOST = -(2**63), 2**63 - 1  # of whole numbers, as TOML has it


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    """The tables of the text, or an InputError."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column \d+\)", str(error))
        problem = str(error).replace(where.group(), "") if where else str(error)
        raise at(path, int(where.group(1)) if where else None, None, problem) from None
    except RecursionError:
        raise at(path, None, None, f"nested more than {DEEPEST} deep") from None
    except ValueError:  # a number of thousands of digits
        raise at(path, None, None, "a number is too long: whole numbers have at most 64 bits") from None
    _check(path, tables)
    return tables


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


def _check(path: Path, tables: dict[str, Any]) -> None:
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
