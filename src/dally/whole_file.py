"""Files that appear whole or not at all."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dally.errors import InputError
from dally.input_file import regular


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file under a temporary name, renamed once it is written, removed if that fails."""
    if os.path.lexists(path):
        _replaceable(path)
    temporary = temporary_name(path)
    remove_stale(path.parent, path.name)
    try:
        with temporary.open("wb") as raw:
            yield raw
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):  # it is not there, or where it should be is no folder
            temporary.unlink()


def _replaceable(path: Path) -> None:
    """InputError for a folder, a pipe or a device: a file must not take its place."""
    try:
        regular(path)
    except InputError as error:
        raise InputError(str(error).replace("cannot be read", "cannot be written")) from None


def temporary_name(path: Path) -> Path:
    """The name beside it under which this process writes a file."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def remove_stale(folder: Path, name: str = "") -> None:
    """Remove what processes that are no more left under temporary names, of that file or of any."""
    with suppress(OSError):
        for path in folder.iterdir():
            result = re.fullmatch(r"\.(.+)\.(\d{1,9})\.tmp", path.name)
            if result and name in ("", result[1]) and not _lives(int(result[2])):
                with suppress(OSError):
                    path.unlink()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        pass
    return True


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
