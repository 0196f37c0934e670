"""Which machines of the local backend take no new jobs, and why: a file that is written whole."""

from __future__ import annotations

import json
from pathlib import Path

from dally.errors import InputError
from dally.live.backends.base import BackendError
from dally.whole_file import write_whole


def read_drained(path: Path) -> dict[str, str]:
    """Why, by machine; an InputError if the file is damaged."""
    try:
        result = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if not isinstance(result, dict) or not all(isinstance(why, str) for why in result.values()):
        raise InputError(f"{path}: must hold machines and why they are drained")
    return result


def write_drained(path: Path, drained: dict[str, str]) -> None:
    """All of them."""
    try:
        write_whole(path, json.dumps(drained).encode())
    except InputError as error:
        raise BackendError(str(error)) from None
