"""The examples of docs/formats.md, put into a folder."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fuzz import Seed, seeds

SEEDS = seeds()


def first_seed(name: str) -> Seed:
    """The documented example of a format."""
    return next(seed for seed in SEEDS if seed.format == name)


def put(seed: Seed, folder: Path) -> Path:
    """Write the example's files; the trace among them."""
    for name, content in seed.files.items():
        (folder / name).write_bytes(content)
    return folder / next(iter(seed.files))
