"""Reading a csv or csv.gz row by row, with errors that say where."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from dally.errors import InputError, at


def rows_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every row that is not blank, the header first."""
    line = 0
    try:
        with _open(path) as file:
            reader = csv.reader(file)
            for row in reader:
                line = reader.line_num
                if row:
                    yield line, row
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise at(path, line + 1, None, f"broken gzip: {_lower(error)}") from None
    except UnicodeDecodeError as error:
        raise at(path, line + 1, None, f"is not text in UTF-8: byte {error.object[error.start]:#04x}") from None
    except csv.Error as error:
        raise at(path, line + 1, None, _lower(error)) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _open(path: Path) -> TextIO:
    """The file as text; gzip is known by its first two bytes, not by its name."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    binary = gzip.GzipFile(path) if zipped else path.open("rb")
    return io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")


def _lower(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def number(path: Path, line: int, field: str, text: str) -> float:
    """The number in a field: finite and not negative, or an InputError."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
        if text.strip():
            raise at(path, line, field, f"{text!r} is not a number") from None
    if not 0.0 <= value < float("inf") or "_" in text:
        shown = repr(text) if text.strip() else "empty"
        raise at(path, line, field, f"{shown}: must be a number, not negative") from None
    return value
