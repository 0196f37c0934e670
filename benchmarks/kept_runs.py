"""Options of benchmarks that keep their runs: how many at a time, from which data, and where things go."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add them, after a benchmark's own."""
    parser.add_argument("--days", type=float, default=0.0, help="only the first so many days, to try things out")
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one per core")
    parser.add_argument("--shared", type=Path)
    parser.add_argument("--out", type=Path, help="keep finished runs there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
