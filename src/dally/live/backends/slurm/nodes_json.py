"""From the nodes of `sinfo --json` to the machines of the contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dally.cluster.formats.node_gpus import gres_gpus, gres_type
from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedMachine

DOWN = frozenset(("DOWN", "ERROR", "UNKNOWN", "FUTURE", "INVALID", "INVALID_REG", "POWERED_DOWN_FAILED"))
TAKES_NO_JOBS = frozenset(
    (
        "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "NOT_RESPONDING", "MAINTENANCE", "MAINT", "REBOOT",
        "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERING_DOWN", "RESERVED",
    )
)  # fmt: skip


def machines_of(rows: Iterable[dict[str, Any]], partitions: frozenset[str]) -> list[ObservedMachine]:
    """Nodes with GPUs in any of the partitions, all if none is named, in Slurm's order."""
    result: list[ObservedMachine] = []
    for row in rows:
        if partitions and not partitions.intersection(row.get("partitions") or ()):
            continue
        try:
            gpus = gres_gpus(str(row.get("gres") or ""))
        except ValueError as error:
            raise BackendError(f"node {row.get('name')}: {error}") from None
        if gpus:
            reason, gpu_type = str(row.get("reason") or ""), gres_type(str(row.get("gres") or ""))
            result.append(ObservedMachine(str(row["name"]), gpus, _state(row), reason, gpu_type))
    return result


def _state(row: dict[str, Any]) -> str:
    states = row.get("state")
    parts = {str(token).upper().strip("*") for token in (states if isinstance(states, list) else [states])}
    parts |= {str(token).upper() for token in row.get("state_flags") or ()}
    if parts & DOWN:
        return base.DOWN
    return base.DRAINING if parts & TAKES_NO_JOBS else base.UP
