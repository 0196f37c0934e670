"""Slurm's configuration files: lines of KEY=VALUE, comments, and lines that go on after a backslash."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dally.cluster.formats.hostlist import MOST_NAMES, expand_list
from dally.errors import at
from dally.input_file import lines_of, shown

_SETTING = re.compile(r'(?<!\w)([A-Za-z_]\w*+)[ \t]*+=[ \t]*+("[^"]*"|\S*)')


def settings_of(text: str) -> Iterator[tuple[int, dict[str, str], str]]:
    """(line, values by key in lower case, what is not KEY=VALUE) of every line that says something."""
    for line, content in _joined(text):
        content = content.split("#", 1)[0]
        values = {match.group(1).lower(): match.group(2).strip('"') for match in _SETTING.finditer(content)}
        rest = _SETTING.sub("", content).strip()
        if values or rest:
            yield line, values, rest


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines with those that follow a backslash joined to them, under the number of the first."""
    start, parts = 0, [""]
    for number, line in lines_of(text):
        start = start or number
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue
        yield start, "".join([*parts, line])
        start, parts = 0, [""]
    if start:
        yield start, "".join(parts)


class HostLists:
    """Expands the host lists of one file, which may stand for a million names in all."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._room = MOST_NAMES

    def names(self, line: int | None, field: str, text: str) -> list[str]:
        """The names a host list stands for, or an InputError."""
        try:
            result = expand_list(text)
        except ValueError as error:
            raise at(self._file, line, field, f"{shown(text)}: {error}") from None
        self._room -= len(result)
        if self._room < 0:
            raise at(self._file, line, field, f"{shown(text)}: over {MOST_NAMES} names up to here")
        return result


def whole_numbers(file: Path, line: int | None, field: str, text: str) -> list[int]:
    """The whole numbers of a list separated by commas, or an InputError."""
    try:
        return [whole_number(item) for item in text.split(",")]
    except ValueError as error:
        raise at(file, line, field, f"{shown(text)}: {error}") from None


def whole_number(text: str) -> int:
    """The number, not negative, or a ValueError."""
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise ValueError("must be a whole number")
    return int(text)
