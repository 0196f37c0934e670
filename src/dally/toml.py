"""TOML, read with errors that name the line of the field, and written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from dally.errors import InputError, at, unknown
from dally.input_file import shown
from dally.parsed_text import DEEPEST, check_values

Keys = tuple[str | int, ...]  # numbers are places in a list of tables
KINDS = {bool: "true or false", int: "a whole number", float: "a number", tuple: "a list of texts", dict: "a table"}


class TomlFile:
    """The tables of one file, and the lines of its fields."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.tables = _parsed(path, text)
        self._text = text

    def line(self, *keys: str | int) -> int | None:
        """The line of the field, or of the closest table around it that stands in a line of its own."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self._lines:
                return self._lines[keys[:length]]
        return None

    @cached_property
    def _lines(self) -> dict[Keys, int]:
        lines: dict[Keys, int] = {}
        last: dict[Keys, int] = {}  # the latest table of each list
        table: Keys = ()
        for number, line in enumerate(self._text.split("\n"), start=1):
            header = re.match(r"\s*(\[\[?.*\]\]?)\s*(#.*)?$", line)
            if header is not None:
                table = _numbered(_keys(header[1]), last, starts=header[1].startswith("[["))
                place = table
            else:
                field = _keys(f"{_before_value(line)} = 0") if "=" in line else ()
                if not field:
                    continue
                place = (*table, *field)
            for length in range(1, len(place) + 1):
                lines.setdefault(place[:length], number)
        return lines

    @contextmanager
    def blamed(self, *keys: str | int) -> Iterator[None]:
        """Put file and line of the field before what is wrong with it."""
        try:
            yield
        except InputError as error:
            raise at(self.path, self.line(*keys), None, str(error)) from None

    def fail(self, keys: Keys, name: str, value: object, problem: str) -> NoReturn:
        """Raise an InputError about the value of a field, which people call `name`."""
        text = "missing" if value is None else shown(value)
        raise at(self.path, self.line(*keys), name, f"{text}: {problem}")

    def only(self, known: Sequence[str]) -> None:
        """InputError for a table or field at the top that is not one of these."""
        for key in self.tables:
            if key not in known:
                raise at(self.path, self.line(key), key, f"unknown; known: {', '.join(known)}")

    def fields(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """The fields at the top, each in the type of its default; tables hold texts."""
        values: dict[str, Any] = {}
        for name, value in self.tables.items():
            if name not in defaults:
                raise at(self.path, self.line(name), None, str(unknown("field", name, list(defaults))))
            fitting = _fitting(value, defaults[name])
            if fitting is None:
                kind = KINDS.get(type(defaults[name]), "a text")
                self.fail((name,), name, value, f"must be {kind}")
            values[name] = fitting
        return values


class TomlTable:
    """One table of a file, its fields checked as they are read; `prefix` is what errors put before their names."""

    def __init__(self, file: TomlFile, keys: Keys, row: dict[str, Any], prefix: str = "") -> None:
        self.file = file
        self.keys = keys
        self.row = row
        self.prefix = prefix

    def table(self, key: str, default: dict[str, Any] | None = None) -> TomlTable:
        """A table within."""
        value = self.row.get(key, default)
        if not isinstance(value, dict):
            self.fail(key, value, "must be a table such as { value = 1, source = '…' }")
        return TomlTable(self.file, (*self.keys, key), value, f"{self.prefix}{key}.")

    def only(self, keys: Sequence[str]) -> None:
        """InputError for a field that is not one of these."""
        for key, value in self.row.items():
            if key not in keys:
                self.fail(key, value, f"unknown; known: {', '.join(keys)}")

    def text(self, key: str, blank: bool = False) -> str:
        """A text that is not empty; `blank`: it may be spaces alone, as a domain's name may."""
        value = self.row.get(key)
        if not isinstance(value, str) or not (value if blank else value.strip()):
            self.fail(key, value, "must be text")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of these."""
        value = self.row.get(key)
        if value not in choices:
            self.fail(key, value, f"must be one of {', '.join(choices)}")
        return str(value)

    def count(self, key: str, least: int = 1, most: int | None = None) -> int:
        """A whole number."""
        value: Any = self.row.get(key)
        if type(value) is not int or value < least or (most and value > most):
            bounds = f" from {least} to {most}" if most else f", at least {least}"
            self.fail(key, value, f"must be a whole number{bounds}")
        return value

    def number(self, key: str, or_zero: bool = False) -> float:
        """A finite number greater than 0."""
        value: Any = self.row.get(key)
        if type(value) not in (int, float) or not 0 <= value < float("inf") or (value == 0 and not or_zero):
            self.fail(key, value, f"must be a number{', not negative' if or_zero else ' greater than 0'}")
        return float(value)

    def fail(self, key: str, value: object, problem: str) -> NoReturn:
        """Raise an InputError about a field of it."""
        self.file.fail((*self.keys, *key.split(".")), f"{self.prefix}{key}", value, problem)


def _parsed(path: Path, text: str) -> dict[str, Any]:
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
    check_values(path, tables)
    return tables


def _numbered(keys: Keys, last: dict[Keys, int], starts: bool) -> Keys:
    """The keys of a header with the places of the lists of tables on its way; `starts`: one more of its own."""
    place: Keys = ()
    for number, key in enumerate(keys, start=1):
        place = (*place, key)
        if starts and number == len(keys):
            last[place] = last.get(place, -1) + 1
        if place in last:
            place = (*place, last[place])
    return place


def _before_value(line: str) -> str:
    """What stands before the first = outside quotes."""
    match = re.match(r"""\s*((?:"[^"]*"|'[^']*'|[\w.\- \t])*)=""", line)
    return match[1] if match else ""


def _keys(text: str) -> Keys:
    """The keys of a header, or of `a.b = 0`; none if it is neither, as inside a list of several lines."""
    try:
        value: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(value, dict) and value:
        keys.append(next(iter(value)))
        value = value[keys[-1]]
        value = value[0] if isinstance(value, list) and value else value
    return tuple(keys)


def _fitting(value: Any, default: Any) -> Any:
    """The value in the type of the default; None if it is of another."""
    kind = type(default)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if kind is dict and isinstance(value, dict):
        return _flat(value)
    if isinstance(default, Path) and isinstance(value, str):
        return Path(value)
    return value if type(value) is kind else None


def _flat(table: Mapping[str, Any]) -> dict[str, str]:
    """Its settings; those of a table within have its name and a dot before theirs."""
    result: dict[str, str] = {}
    for key, item in table.items():
        if isinstance(item, dict):
            result |= {f"{key}.{name}": text for name, text in _flat(item).items()}
        else:
            result[key] = setting_text(item)
    return result


def setting_text(value: Any) -> str:
    """A setting as `--set` takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def toml_text(value: str) -> str:
    """A TOML string: JSON's, which TOML reads the same way, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_text(key)


def toml_value(value: Any) -> str:
    """A value in one line; a table is an inline one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(toml_lines(value))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def toml_lines(values: Mapping[str, Any]) -> list[str]:
    """A line for each field."""
    return [f"{toml_key(key)} = {toml_value(value)}" for key, value in values.items()]
