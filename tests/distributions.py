"""A distribution that adds entry points, as pip would leave it in a folder on the path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, name: str, entry_points: Mapping[str, str], sources: Mapping[str, str]) -> None:
    """Leave version 1.0 of it there: groups with their lines, and modules with their text."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("".join(f"[{group}]\n{text}\n" for group, text in entry_points.items()))
    for module, text in sources.items():
        (folder / f"{module}.py").write_text(text)
