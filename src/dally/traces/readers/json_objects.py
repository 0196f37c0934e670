"""JSON files of many objects, read one by one, and the fields of such an object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError, at
from dally.input_file import shown
from dally.traces.table import LONGEST_LINE, lines_of

CHUNK: Final = 1 << 18  # characters
SPACE: Final = " \t\r\n"
CUT_OFF: Final = "the JSON ends in the middle: is the file cut off?"

Entry = dict[str, Any]


def objects_of(path: Path, what: str) -> Iterator[tuple[int, Entry]]:
    """(line, object) of every entry of a JSON list, holding only a piece of the file at a time.

    `what` says what the entries are: an object with jobid, submitted_time, attempts.
    """
    text = _Buffer(path)
    if text.next_char() != "[":
        raise at(path, text.line, None, "must begin with [: a JSON list")
    yield from _entries(text, what)
    rest = text.next_char()
    if rest:
        raise at(path, text.line, None, f"{rest!r}: nothing may follow the list")


def items_of(path: Path, what: str) -> Iterator[tuple[int, Entry]]:
    """(line, object) of everything in a file of Kubernetes: lists and single objects, one after another."""
    text = _Buffer(path)
    if not text.next_char():
        raise InputError(f"{path}: is empty; expected what kubectl get -o json prints")
    while mark := text.next_char():
        if mark != "{":
            raise at(path, text.line, None, f"{mark!r}: must begin with {{: what kubectl get -o json prints")
        yield from _document(text, what)


def _document(text: _Buffer, what: str) -> Iterator[tuple[int, Entry]]:
    """The entries under `items`, or the object itself if it has none."""
    whole: Entry = {}
    line, is_list = text.line, False
    text.skip(1)
    while (mark := text.next_char()) != "}":
        name = text.take_value()
        if not isinstance(name, str):
            raise at(text.path, text.line, None, f"broken JSON: {shown(name)}: must be a name in quotes")
        text.expect(":")
        if name == "items" and text.next_char() == "[":
            is_list = True
            kind = str(whole.get("kind", "")).removesuffix("List")  # which raw lists say once for all
            yield from ((place, {"kind": kind, **entry}) for place, entry in _entries(text, what))
        else:
            whole[name] = text.take_value()
        if (mark := text.next_char()) not in (",", "}"):
            raise at(text.path, text.line, None, f"{mark!r}: expected a comma or }}" if mark else CUT_OFF)
        if mark == ",":
            text.skip(1)
    text.skip(1)
    if not is_list:
        yield line, whole


def _entries(text: _Buffer, what: str) -> Iterator[tuple[int, Entry]]:
    """The objects of the list that begins here."""
    text.skip(1)
    if text.next_char() == "]":
        text.skip(1)
        return
    while True:
        text.next_char()
        line = text.line
        entry = text.take_value()
        if not isinstance(entry, dict):
            raise at(text.path, line, None, f"{entry!r}: must be {what}")
        yield line, entry
        mark = text.next_char()
        if mark not in (",", "]"):
            raise at(text.path, text.line, None, f"{mark!r}: expected a comma or ]" if mark else CUT_OFF)
        text.skip(1)
        if mark == "]":
            return


class _Buffer:
    """The part of a file that is being parsed; grows until it holds a whole value."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pieces = _chunks(path)
        self._text = ""
        self._at = 0
        self._decode = json.JSONDecoder().raw_decode
        self.line = 1

    def next_char(self) -> str:
        """The next character that is not space, or "" at the end."""
        while True:
            begin = self._at
            while self._at < len(self._text) and self._text[self._at] in SPACE:
                self._at += 1
            self.line += self._text.count("\n", begin, self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def skip(self, count: int) -> None:
        self._at += count

    def expect(self, mark: str) -> None:
        """Pass over the mark, which must come next."""
        result = self.next_char()
        if result != mark:
            raise at(self.path, self.line, None, f"{result!r}: expected {mark}" if result else CUT_OFF)
        self._at += 1

    def take_value(self) -> Any:
        """The value that begins here."""
        if not self.next_char():
            raise at(self.path, self.line, None, CUT_OFF)
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The value may go on in the next piece; read ever more, so that a huge one is parsed
                # a few times only.
                if self._grow(len(self._text)):
                    continue
                line = self.line + self._text.count("\n", self._at, error.pos)
                raise at(self.path, line, None, f"broken JSON: {error.msg[:1].lower()}{error.msg[1:]}") from None
            except (ValueError, RecursionError) as error:
                raise at(self.path, self.line, None, f"broken JSON: {error}") from None
            if end == len(self._text) and self._grow(CHUNK):
                continue  # a number may go on
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            return value

    def _grow(self, most: int = CHUNK) -> bool:
        """Drop what is parsed and read at least `most` more characters; False at the end of the file."""
        more: list[str] = []
        size = 0
        while size < max(most, CHUNK) and (piece := next(self._pieces, "")):
            more.append(piece)
            size += len(piece)
        self._text = "".join(chain((self._text[self._at :],), more))
        self._at = 0
        return size > 0


def _chunks(path: Path) -> Iterator[str]:
    """The text in pieces of some size: lines may be short or the whole file."""
    held: list[str] = []
    size = 0
    for line in lines_of(path):
        held.append(line)
        size += len(line)
        if size >= CHUNK:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def list_in(path: Path, line: int, entry: Entry, field: str, of: type = dict) -> list[Any]:
    """The list in a field; null and missing are an empty one."""
    value = entry.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, of) for item in value):
        kind = "objects" if of is dict else "names"
        raise at(path, line, field, f"{value!r}: must be a list of {kind}")
    return value


def object_in(path: Path, line: int, entry: Entry, field: str) -> Entry:
    """The object in a field; null and missing are an empty one."""
    value = entry.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise at(path, line, field, f"{shown(value)}: must be an object")
    return value


def text_in(path: Path, line: int, entry: Entry, field: str) -> str:
    """The text in a field; null and missing are an empty one."""
    value = entry.get(field)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST_LINE or not _is_unicode(value):
        raise at(path, line, field, f"{value!r}: must be text of at most {LONGEST_LINE:,} characters")
    return value.strip()


def _is_unicode(text: str) -> bool:
    """Whether it could be written: JSON can spell half a character, and NUL."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))
