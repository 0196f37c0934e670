"""Files that appear whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dally.errors import InputError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file under a temporary name, renamed once it is written, removed if that fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as raw:
            yield raw
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):  # it is not there, or where it should be is no folder
            temporary.unlink()


def write_whole(path: Path, content: bytes) -> None:
    """Write the bytes."""
    with whole_file(path) as raw:
        raw.write(content)


def write_pieces(path: Path, pieces: Iterable[str]) -> None:
    """Write the text piece by piece; gzipped if the name ends in .gz, the same bytes every time."""
    with whole_file(path) as raw:
        if path.name.endswith(".gz"):
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                packed.writelines(piece.encode() for piece in pieces)
        else:
            raw.writelines(piece.encode() for piece in pieces)
