"""In which line of a TOML file a key stands: tomllib does not say."""

from __future__ import annotations

import re
import tomllib
from typing import Any

Keys = tuple[str, ...]


class TomlLines:
    """The lines of the keys of one file, by all keys that lead to them."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Keys, int] = {}
        table: Keys = ()
        for number, line in enumerate(text.split("\n"), start=1):
            header = re.match(r"\s*(\[\[?.*\]\]?)\s*(#.*)?$", line)
            if header is not None:
                table = _keys(header[1])
                found = table
            else:
                found = (*table, *(inner := _keys(f"{_before_value(line)} = 0"))) if "=" in line else ()
                if "=" in line and not inner:
                    continue
            for length in range(1, len(found) + 1):
                self._lines.setdefault(found[:length], number)

    def of(self, *keys: str) -> int | None:
        """The line of the key, or of the closest table around it that stands in a line of its own."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self._lines:
                return self._lines[keys[:length]]
        return None


def _before_value(line: str) -> str:
    """What stands before the first = outside quotes."""
    found = re.match(r"""\s*((?:"[^"]*"|'[^']*'|[\w.\- \t])*)=""", line)
    return found[1] if found else ""


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
