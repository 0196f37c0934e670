"""Partitions that a record shows: which machines the jobs of each ran on, where the cluster's file does not say."""

from __future__ import annotations

from collections.abc import Sequence

from dally.cluster.formats.hostlist import expand_list
from dally.cluster.partitions import Partition
from dally.cluster.topology import Topology
from dally.traces.rows import TraceRow

MOST_UNPLACED = 0.1  # a share of jobs: with more of them, machines seen are too few to go by


def recorded_partitions(topology: Topology, rows: Sequence[TraceRow]) -> list[Partition]:
    """The partitions by the machines on which their jobs ran; [] if the record does not show them.

    A machine on which no job ran belongs to the partitions of its neighbours of the same GPU type, if these agree.
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
            names = expand_list(row.nodes)
        except ValueError:
            continue
        seen.setdefault(row.spec.partition, set()).update(numbers[name] for name in names if name in numbers)
    return {name: machines for name, machines in seen.items() if machines}


def _add_unseen(topology: Topology, seen: dict[str, set[int]]) -> None:
    partitions: dict[int, frozenset[str]] = {
        number: frozenset(name for name in seen if number in seen[name])
        for number in set[int]().union(*seen.values())
    }
    by_domain: dict[tuple[int, int, str], set[frozenset[str]]] = {}
    for number, names in partitions.items():
        for place in _domains(topology, number):
            by_domain.setdefault(place, set()).add(names)
    for number in range(topology.machine_count()):
        if number in partitions:
            continue
        nearest = next((by_domain[place] for place in _domains(topology, number) if place in by_domain), set())
        if len(nearest) == 1:
            for name in next(iter(nearest)):
                seen[name].add(number)


def _domains(topology: Topology, machine: int) -> list[tuple[int, int, str]]:
    """The domains above a machine, closest first, each for GPUs of its type."""
    return [
        (tier, int(topology.domain_of(tier, machine)), topology.gpu_types[machine])
        for tier in range(1, len(topology.tiers))
    ]
