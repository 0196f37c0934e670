"""Best fit for gangs whose GPUs come in groups that must share a machine: tensor parallelism."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Allocation


def best_fit_groups(cluster: Cluster, tier: i64, gpus: i64, group: i64) -> Allocation | None:
    """The best fit within one domain of that tier, whole groups on every machine, or None.

    Sums of free GPUs do not tell how many groups fit, so this looks at every machine: such gangs are few.
    """
    best: i64 = -1
    for domain in range(len(cluster.free[tier])):
        free = cluster.free[tier][domain]
        if free < gpus or (best >= 0 and free >= cluster.free[tier][best]):
            continue
        if usable(cluster, tier, domain, group) >= gpus:
            best = domain
    if best < 0:
        return None
    allocation = Allocation(tier)
    _fill(cluster, tier, best, gpus, group, allocation)
    return allocation


def fill_groups(cluster: Cluster, tier: i64, domain: i64, gpus: i64, group: i64, allocation: Allocation) -> None:
    """Add that many of the domain's free GPUs, which it must have in whole groups."""
    _fill(cluster, tier, domain, gpus, group, allocation)


def usable(cluster: Cluster, tier: i64, domain: i64, group: i64) -> i64:
    """Free GPUs of a domain in whole groups."""
    if tier == 0:
        free = cluster.free[0][domain]
        return free - free % group
    total: i64 = 0
    first = cluster.topology.first_children[tier][domain]
    for place in range(cluster.topology.child_counts[tier][domain]):
        total += usable(cluster, tier - 1, first + place, group)
    return total


def _fill(cluster: Cluster, tier: i64, domain: i64, gpus: i64, group: i64, allocation: Allocation) -> None:
    """As few children as possible: the emptiest whole, the remainder from the child it fits best."""
    if tier == 0:
        allocation.add(domain, gpus)
        return
    first = cluster.topology.first_children[tier][domain]
    rooms: list[tuple[int, int]] = []  # (GPUs, child), emptiest first
    for place in range(cluster.topology.child_counts[tier][domain]):
        room = usable(cluster, tier - 1, first + place, group)
        if room > 0:
            rooms.append((int(room), int(first + place)))
    rooms.sort(key=_emptiest_first)
    place = 0
    while rooms[place][0] < gpus:
        room, child = rooms[place]
        _fill(cluster, tier - 1, child, room, group, allocation)
        gpus -= room
        place += 1
    snug = place
    while snug + 1 < len(rooms) and rooms[snug + 1][0] >= gpus:
        snug += 1
    while snug > place and rooms[snug - 1][0] == rooms[snug][0]:
        snug -= 1  # the lowest number among equals
    _fill(cluster, tier - 1, rooms[snug][1], gpus, group, allocation)


def _emptiest_first(room: tuple[int, int]) -> tuple[int, int]:
    return (-room[0], room[1])
