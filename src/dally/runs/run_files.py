"""What a run or a comparison left, read back only if it is what was written: SHA256SUMS says."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dally.errors import InputError, at
from dally.input_file import read_bytes, read_text

if TYPE_CHECKING:
    import polars as pl

SUMS = "SHA256SUMS"  # as `sha256sum -c` reads it; without it, as in older folders, files are taken as they are


def sums_text(files: Mapping[str, Path]) -> str:
    """The text of SHA256SUMS: a line for each file, under the name that it will have."""
    lines = []
    for name, path in files.items():
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def checked_bytes(path: Path) -> bytes:
    """What the file holds, or an InputError if that is not what was written."""
    content = read_bytes(path)
    sums = path.with_name(SUMS)
    if os.path.lexists(sums) and _noted(sums, path.name) != hashlib.sha256(content).hexdigest():
        raise InputError(f"{path}: is damaged or was changed: {SUMS} beside it has another digest")
    return content


def checked_parquet(path: Path, columns: Iterable[str]) -> pl.DataFrame:
    """The table in the file, which has these columns."""
    import polars as pl

    content = checked_bytes(path)
    try:
        result = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise at(path, None, None, f"cannot be read: {str(error).splitlines()[0]}") from None
    check_columns(path, result, columns)
    return result


def check_columns(path: Path, table: pl.DataFrame, columns: Iterable[str]) -> None:
    """InputError unless the table has these columns."""
    for name in columns:
        if name not in table.columns:
            raise at(path, None, name, f"this column is missing; it has {', '.join(table.columns)}")


def _noted(path: Path, name: str) -> str:
    """The digest that SHA256SUMS has for the file of that name."""
    result: dict[str, str] = {}
    for line, text in enumerate(read_text(path).splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64})  (.+)", text)
        if match is None:
            raise at(
                path, line, None, "must be a SHA-256 and a name; nothing is checked in a folder without this file"
            )
        result[match[2]] = match[1]
    if name not in result:
        raise at(path, None, name, "is missing; nothing is checked in a folder without this file")
    return result[name]
