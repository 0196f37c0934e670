"""Text files as people hand them in: with or without a BOM, with any line ends, and sometimes not text at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from reprlib import Repr

from dally.errors import InputError, at

MOST_BYTES = 256 << 20
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def read_text(path: Path) -> str:
    """The file's text without its BOM, or an InputError; /dev/stdin and pipes will do."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{str(path)!r}: is not the name of a file") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"{path}: is larger than {MOST_BYTES >> 20} MB")
    return decode(path, content)


def decode(path: Path, content: bytes) -> str:
    """The content as text, or an InputError that says in which line it is none."""
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise at(path, line, None, "holds a NUL byte: not a text file, or a damaged one")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise at(path, line, None, f"is not text in UTF-8: byte {content[error.start]:#04x}") from None


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """(number, line) of every line, line ends taken off."""
    for number, line in enumerate(text.split("\n"), start=1):
        yield number, line.removesuffix("\r")


def shown(value: object) -> str:
    """The value as an error message shows it, however large it is."""
    return _SHORT.repr(value)
