"""Reading a text file, plain or gzipped, line by line or as a csv, with errors that say where."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TextIO, cast

from dally.errors import InputError, at
from dally.input_file import regular

MOST: Final = 1e15  # of any number: sums stay exact enough, and nothing overflows
LONGEST_LINE: Final = 100_000  # characters, where a line is one job
BROKEN_GZIP: Final = (EOFError, zlib.error, gzip.BadGzipFile)


def rows_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every row that is not blank, the header first."""
    reader = csv.reader(lines_of(path))
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise at(path, reader.line_num, None, lower(error)) from None


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The rows as lines of a csv."""
    line = io.StringIO()
    # Only what occurs in the line end is quoted, and a lone \r must be: lines are cut there when read.
    writer = csv.writer(line, lineterminator="\r\n")
    for row in rows:
        writer.writerow(row)
        yield f"{line.getvalue()[:-2]}\n"
        line.seek(0)
        line.truncate()


def lines_of(path: Path, longest: int = 1 << 62) -> Iterator[str]:
    """The lines with their ends, none of more than `longest` characters."""
    line = 0
    try:
        with open_text(path) as file:
            for line, text in enumerate(file, 1):
                if "\0" in text:
                    raise at(path, line, None, "holds a NUL byte: this is not a text file, or it is damaged")
                if len(text) > longest:
                    raise at(
                        path, line, None, f"a line of {len(text):,} characters: at most {longest:,} make sense"
                    )
                yield text
    except BROKEN_GZIP as error:
        raise at(path, line + 1, None, f"broken gzip: {lower(error)}") from None
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise at(path, _undecodable_line(path), None, f"is not text in UTF-8: byte {byte:#04x}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def first_lines(path: Path, most_chars: int = 1 << 16) -> list[str]:
    """The first lines, as far as they can be read: enough to tell what the file is."""
    pieces: list[str] = []
    try:
        with open_text(path, errors="replace") as file:
            while most_chars > 0 and (piece := file.read(min(most_chars, 4096))):
                pieces.append(piece)
                most_chars -= len(piece)
    except BROKEN_GZIP:
        pass
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    return "".join(pieces).splitlines()


def open_text(path: Path, errors: str = "strict") -> TextIO:
    """The file as text; gzip is known by its first two bytes, not by its name."""
    return io.TextIOWrapper(_open(path), encoding="utf-8-sig", errors=errors, newline="")


def _open(path: Path) -> BinaryIO:
    with regular(path).open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.GzipFile(path)) if zipped else path.open("rb")


def _undecodable_line(path: Path) -> int | None:
    """The line that is not UTF-8. Text is decoded in blocks, so the reader itself knows only the block."""
    try:
        with _open(path) as file:
            for line, text in enumerate(file, 1):
                try:
                    text.decode()
                except UnicodeDecodeError:
                    return line
    except BROKEN_GZIP:
        pass
    return None


def lower(error: Exception) -> str:
    """What the error says, as the end of a sentence."""
    text = str(error)
    return text[:1].lower() + text[1:]


def number(path: Path, line: int, field: str, text: str) -> float:
    """The number in a field: not negative and not absurd, or an InputError."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
        if text.strip():
            raise at(path, line, field, f"{text!r} is not a number") from None
    if 0.0 <= value <= MOST and "_" not in text:
        return value
    shown = repr(text) if text.strip() else "empty"
    limit = f" and at most {MOST:g}" if value > MOST else ""
    raise at(path, line, field, f"{shown}: must be a number, not negative{limit}")
