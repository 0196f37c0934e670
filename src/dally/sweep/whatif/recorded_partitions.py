"""Partitions that a record shows: which machines the jobs of each ran on, where the cluster's file does not say."""

from __future__ import annotations

from collections.abc import Sequence

from dally.cluster.formats.hostlist import expand
from dally.cluster.partitions import Partition
from dally.cluster.topology import Topology
from dally.traces.rows import TraceRow

MOST_UNPLACED = 0.1  # a share of jobs: with more of them, machines seen are too few to go by


def recorded_partitions(topology: Topology, rows: Sequence[TraceRow]) -> list[Partition]:
    """The partitions by the machines on which their jobs ran; [] if the record does not show them.

    A machine on which no job ran belongs to the partition of its GPU type, if that type has one partition.
    """
    named = [row for row in rows if row.spec.partition]
    placed = [row for row in named if row.nodes]
    if topology.partitions or len({row.spec.partition for row in named}) < 2:
        return []
    if len(placed) < (1.0 - MOST_UNPLACED) * len(named):
        return []
    seen = _machines_seen(topology, placed)
    _add_unseen(topology, seen)
    largest = dict.fromkeys(seen, 0)
    for row in named:
        largest[row.spec.partition] = max(largest.get(row.spec.partition, 0), row.spec.gpus)
    gpus = {name: sum(int(topology.gpus[0][number]) for number in seen.get(name, ())) for name in largest}
    if any(largest[name] > gpus[name] for name in largest):
        return []  # jobs that it does not hold ran there: the machines seen are not all of it
    return [Partition(name, frozenset(seen[name])) for name in sorted(seen)]


def _machines_seen(topology: Topology, rows: Sequence[TraceRow]) -> dict[str, set[int]]:
    numbers = topology.machine_numbers()
    seen: dict[str, set[int]] = {}
    for row in rows:
        try:
            names = expand(row.nodes)
        except ValueError:
            continue
        seen.setdefault(row.spec.partition, set()).update(numbers[name] for name in names if name in numbers)
    return {name: machines for name, machines in seen.items() if machines}


def _add_unseen(topology: Topology, seen: dict[str, set[int]]) -> None:
    types = {name: {topology.gpu_types[number] for number in machines} for name, machines in seen.items()}
    used = set[int]().union(*seen.values())
    for number in range(topology.machine_count()):
        of_type = [name for name in seen if topology.gpu_types[number] in types[name]]
        if number not in used and len(of_type) == 1:
            seen[of_type[0]].add(number)
