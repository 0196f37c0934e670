"""The workload of `dally demo`, for tests that need a busy cluster."""

from __future__ import annotations

from pathlib import Path

from dally.cli.runs.compare import RECIPE, WORKLOAD
from dally.traces.generate import find_recipe, generate, write_workload


def write_demo(folder: Path) -> Path:
    """The trace, written to that folder."""
    path = folder / "demo.csv"
    write_workload(path, generate(find_recipe(RECIPE), WORKLOAD))
    return path
