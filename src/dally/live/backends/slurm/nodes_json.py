"""From the nodes of `sinfo --json` or `scontrol show nodes --json` to the machines of the contract."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dally.cluster.formats.node_gpus import gres_gpus, gres_type
from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedJob, ObservedMachine
from dally.live.backends.slurm.job_record import number

DOWN = frozenset(("DOWN", "ERROR", "UNKNOWN", "FUTURE", "INVALID", "INVALID_REG", "POWERED_DOWN_FAILED"))
SILENT = "NOT_RESPONDING"
TAKES_NO_JOBS = frozenset(
    (
        "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", SILENT, "REBOOT", "REBOOT_REQUESTED",
        "REBOOT_ISSUED", "POWERING_DOWN",
    )
)  # fmt: skip
MAINTAINED = frozenset(("MAINTENANCE", "MAINT"))  # by a reservation: jobs that name it may run there


def machines_of(
    rows: Iterable[dict[str, Any]],
    partitions: frozenset[str],
    counts_memory: bool = False,
    reserved: Container[str] = (),
) -> list[ObservedMachine]:
    """Nodes with GPUs in any of the partitions, all if none is named, in Slurm's order.

    `reserved`: nodes of a reservation that is known. Others of which Slurm says that they are maintained drain.
    """
    result: list[ObservedMachine] = []
    for row in rows:
        if partitions and not partitions.intersection(row.get("partitions") or ()):
            continue
        try:
            gpus = gres_gpus(str(row.get("gres") or ""))
        except ValueError as error:
            raise BackendError(f"node {row.get('name')}: {error}") from None
        if gpus:
            result.append(_machine(row, gpus, counts_memory, reserved))
    return result


def threads_of(rows: Iterable[dict[str, Any]]) -> int:
    """Of a core, the most of any node."""
    return max((number(row.get("threads")) for row in rows), default=1) or 1


def _machine(row: dict[str, Any], gpus: int, counts_memory: bool, reserved: Container[str]) -> ObservedMachine:
    memory = number(row.get("real_memory")) - number(row.get("specialized_memory"))
    return ObservedMachine(
        str(row["name"]), gpus, _state(row, reserved), str(row.get("reason") or ""),
        gres_type(str(row.get("gres") or "")),
        cpus=float(number(row.get("effective_cpus")) or number(row.get("cpus"))) or None,
        memory_mb=float(memory) if counts_memory and memory > 0 else None,
        features=frozenset(_features(row)),
        cpus_taken=float(number(row.get("alloc_cpus"))), memory_mb_taken=float(number(row.get("alloc_memory"))),
    )  # fmt: skip


def _features(row: dict[str, Any]) -> list[str]:
    """A list since 23.02, a text before."""
    value = row.get("active_features") or row.get("features") or ""
    return [str(one) for one in value] if isinstance(value, list) else [one for one in value.split(",") if one]


def less_ours(machines: Sequence[ObservedMachine], jobs: Iterable[ObservedJob]) -> list[ObservedMachine]:
    """The same with only that counted as taken that our own jobs do not have: other jobs', GPUs or not."""
    cpus: dict[str, float] = defaultdict(float)
    memory: dict[str, float] = defaultdict(float)
    others: set[str] = set()
    for job in jobs:
        if job.state in base.ENDED:
            continue
        for name, gpus in job.placement.items():
            if not job.managed:
                others.add(name)
                continue
            cpus[name] += job.spec.cpus_per_node + job.spec.cpus_per_gpu * gpus
            memory[name] += job.spec.memory_mb_per_node + job.spec.memory_mb_per_gpu * gpus
    result = []
    for machine in machines:
        left_cpus = max(0.0, machine.cpus_taken - cpus[machine.name])
        left_mb = max(0.0, machine.memory_mb_taken - memory[machine.name])
        no_gpus = left_cpus > 0.0 and machine.name not in others and machine.name not in cpus
        result.append(replace(machine, cpus_taken=left_cpus, memory_mb_taken=left_mb, shared_with_others=no_gpus))
    return result


def machines_by_partition(rows: Iterable[dict[str, Any]], names: frozenset[str]) -> dict[str, frozenset[str]]:
    """Those of these machines that each partition has."""
    result: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.get("name") in names:
            for partition in row.get("partitions") or ():
                result[str(partition)].add(str(row["name"]))
    return {partition: frozenset(members) for partition, members in result.items()}


def cluster_shape(
    machines: Iterable[ObservedMachine], partitions: Mapping[str, frozenset[str]]
) -> frozenset[tuple[object, ...]]:
    """What makes another topology when it changes: names, GPUs and their types, partitions."""
    members = sorted(partitions.items())
    return frozenset(
        (machine.name, machine.gpus, machine.gpu_type, *(name for name, of in members if machine.name in of))
        for machine in machines
    )


def closed_nodes(rows: Iterable[dict[str, Any]]) -> frozenset[str]:
    """Names of those that are down or that somebody has closed; not of one that is silent for a moment."""
    closed = DOWN | TAKES_NO_JOBS | MAINTAINED
    return frozenset(str(row["name"]) for row in rows if (_states(row) - {SILENT}) & closed)


def owners_of(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Users by node that one user's jobs have to themselves (--exclusive=user, ExclusiveUser=YES)."""
    return {str(row["name"]): str(row["owner"]) for row in rows if row.get("owner")}


def _states(row: dict[str, Any]) -> set[str]:
    states = row.get("state")
    parts = {str(token).upper().strip("*") for token in (states if isinstance(states, list) else [states])}
    return parts | {str(token).upper() for token in row.get("state_flags") or ()}


def _state(row: dict[str, Any], reserved: Container[str]) -> str:
    parts = _states(row)
    if parts & DOWN:
        return base.DOWN
    closed = parts & TAKES_NO_JOBS or (parts & MAINTAINED and row["name"] not in reserved)
    return base.DRAINING if closed else base.UP
