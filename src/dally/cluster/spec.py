"""How `--cluster` is read: `RxMxG`, or the name of a topology file."""

from __future__ import annotations

import re
from pathlib import Path

from dally.cluster.toml_file import read_toml
from dally.cluster.topology import Topology, grid
from dally.errors import InputError

MOST_GPUS = 10_000_000
_GRID = re.compile(r"\d+(x\d+)+")


def is_grid(spec: str) -> bool:
    """Whether it reads as RxMxG."""
    return _GRID.fullmatch(spec) is not None


def read_topology(spec: str) -> Topology:
    """The topology of `4x16x8` (4 racks of 16 machines of 8 GPUs) or of a TOML file."""
    if not is_grid(spec):
        if not Path(spec).exists() and not spec.endswith(".toml"):
            raise InputError(f"cluster {spec!r}: neither RxMxG (racks × machines × GPUs, e.g. 4x16x8) nor a file")
        return read_toml(Path(spec))
    counts = [int(text) for text in spec.split("x")]
    total = 1
    for count in counts:
        total *= count
    if total < 1 or total > MOST_GPUS:
        raise InputError(f"cluster {spec!r}: {total} GPUs, must be between 1 and {MOST_GPUS}")
    return grid(*counts)
