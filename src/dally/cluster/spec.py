"""How `--cluster` is read: `RxMxG`, or the name of a topology file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dally.cluster.topology import Topology, grid
from dally.errors import InputError
from dally.input_file import shown

MOST_GPUS = 10_000_000
_TOLD: set[str] = set()  # warnings that this process has given
_GRID = re.compile(r"\d{1,18}(x\d{1,18})+")


def is_grid(spec: str) -> bool:
    """Whether it reads as RxMxG."""
    return _GRID.fullmatch(spec) is not None


def read_topology(spec: str) -> Topology:
    """The topology of `4x16x8` (4 racks of 16 machines of 8 GPUs) or of a file in any known format.

    Nodes that a file lists and the topology has not are named in a warning.
    """
    if not is_grid(spec):
        return _read_file(spec)
    from dally.cluster.formats.from_machines import MOST_TIERS

    counts = [int(text) for text in spec.split("x")]
    if len(counts) > MOST_TIERS:
        raise InputError(f"cluster {shown(spec)}: {len(counts):,} tiers, at most {MOST_TIERS}")
    total = 1
    for count in counts:
        total *= count
    if total < 1 or total > MOST_GPUS:
        raise InputError(f"cluster {spec!r}: {total} GPUs, must be between 1 and {MOST_GPUS}")
    return grid(*counts)


def _read_file(spec: str) -> Topology:
    from dally.cluster.formats.from_machines import describe
    from dally.cluster.formats.known import import_file

    if not os.path.exists(spec) and not spec.endswith(".toml"):
        raise InputError(f"cluster {shown(spec)}: neither RxMxG (racks × machines × GPUs, e.g. 4x16x8) nor a file")
    found = import_file(Path(spec))
    if found.left_out:
        _warn(spec, describe(found.left_out))
    return found.topology


def _warn(spec: str, left_out: str) -> None:
    """Say it once, however often and by whatever name the file is read."""
    import logging

    told = f"{Path(spec).resolve()}: {left_out}"
    if told not in _TOLD:
        _TOLD.add(told)
        logging.getLogger("dally").warning("dally: %s: %s", spec, left_out)


def cluster_files(spec: str) -> list[str]:
    """The files that a cluster is read from."""
    from dally.cluster.formats.known import files_of

    return [] if is_grid(spec) else [str(path) for path in files_of(Path(spec))]
