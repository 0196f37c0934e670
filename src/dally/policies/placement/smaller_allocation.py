"""What a gang keeps that gives some of its GPUs back."""

from __future__ import annotations

from mypy_extensions import i64

from dally.model import Allocation


def part_of(held: Allocation, gpus: i64) -> Allocation:
    """So many of these GPUs, on as few machines as can be."""
    rows = [(-int(held.gpus[part]), int(held.machines[part])) for part in range(len(held.machines))]
    rows.sort()
    result = Allocation(held.tier)
    for count, machine in rows:
        if gpus > 0:
            part = min(gpus, -count)
            result.add(machine, part)
            gpus -= part
    return result
