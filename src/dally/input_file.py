"""Files as people hand them in: with or without a BOM, with any line ends; some not text, or no files at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from reprlib import Repr
from typing import Final

from dally.errors import InputError, at

MOST_BYTES: Final = 256 << 20  # of a text that is read at once
STDIN: Final = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def regular(path: Path) -> Path:
    """The path, if it names a regular file. To open a pipe would wait for a writer; a device may never end."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise at(path, None, None, f"cannot be read: {error.strerror or error}") from None
    except ValueError:  # a NUL, or half a surrogate
        raise InputError(f"{shown(str(path))}: is not the name of a file") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: cannot be read: Is a directory")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file")
    return path


def read_bytes(path: Path, most: int = -1) -> bytes:
    """What the regular file holds, at most so many bytes; an InputError if it cannot be read."""
    return _read(regular(path), most)


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_text(path: Path, stdin: bool = False) -> str:
    """The file's text without its BOM, or an InputError; `stdin`: /dev/stdin will do, whatever it is."""
    piped = stdin and str(path) in STDIN
    content = _read(path, MOST_BYTES + 1) if piped else read_bytes(path, MOST_BYTES + 1)
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
