"""A file that appears whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from dally.errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Write under a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
