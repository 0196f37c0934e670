"""JSON of which nothing is known yet, picked apart field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dally.errors import at
from dally.input_file import shown


def object_in(path: Path, where: str, row: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; an empty one if it is missing."""
    value = row.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise at(path, None, f"{where}.{key}", f"{shown(value)}: must be an object")
    return value


def objects_in(path: Path, row: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of the list under a key."""
    value = row.get(key)
    if not isinstance(value, list):
        raise at(path, None, key, f"{shown(value)}: must be a list")
    for place, item in enumerate(value):
        if not isinstance(item, dict):
            raise at(path, None, f"{key}[{place}]", f"{shown(item)}: must be an object")
    return value


def texts_in(path: Path, where: str, row: dict[str, Any], key: str) -> list[str]:
    """The texts of the list under a key; none if it is missing."""
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise at(path, None, f"{where}.{key}", f"{shown(value)}: must be a list of names")
    return value


def text_in(path: Path, where: str, row: dict[str, Any], key: str) -> str:
    """The text under a key."""
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise at(path, None, f"{where}.{key}", "missing" if value is None else f"{shown(value)}: must be text")
    return value
