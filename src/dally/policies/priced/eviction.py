"""Cheapest-set preemption: which gangs give way so that a better-ranked one gets a domain of its closest tier."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Job
from dally.policies.ordering.gittins import GittinsOrder


class Eviction:
    """A domain and who loses his GPUs for it."""

    __slots__ = ("domain", "losers", "worth")

    def __init__(self, domain: i64, losers: list[Job], worth: float) -> None:
        self.domain: i64 = domain
        self.losers: list[Job] = losers
        self.worth: float = worth  # finishes per second that are put off


class Room:
    """What a domain would have free, and from whom."""

    __slots__ = ("free", "losers")

    def __init__(self, free: i64) -> None:
        self.free: i64 = free
        self.losers: list[Job] = []


def cheapest_eviction(
    job: Job, tier: i64, candidates: list[Job], cluster: Cluster, order: GittinsOrder
) -> Eviction | None:
    """The domain of that tier that is cleared at the least loss of finishes; None if preemption cannot do it.

    `candidates` may lose their GPUs to the job, worst-ranked first.
    """
    rooms: dict[int, Room] = {}
    ready: list[int] = []
    for other in candidates:
        for domain, gpus in _shares(other, tier, cluster):
            room = rooms.get(domain)
            if room is None:
                room = Room(cluster.free[tier][domain])
                rooms[domain] = room
            if room.free >= job.gpus:
                continue
            room.free += gpus
            room.losers.append(other)
            if room.free >= job.gpus:
                ready.append(domain)
    ready.sort()
    found: Eviction | None = None
    for domain in ready:
        losers = _needed(job, rooms[domain], domain, tier, cluster, order)
        worth = 0.0
        for other in losers:
            worth += 1.0 / order.per_finish_s(other)
        if found is None or worth < found.worth:
            found = Eviction(domain, losers, worth)
    return found


def _needed(job: Job, room: Room, domain: i64, tier: i64, cluster: Cluster, order: GittinsOrder) -> list[Job]:
    """The losers of a domain less those it can do without, the likeliest to end soon spared first."""
    rows = [(order.per_finish_s(other), int(other.index), other) for other in room.losers]
    rows.sort(key=lambda row: row[:2])
    free = room.free
    losers: list[Job] = []
    for _, _, other in rows:
        inside: i64 = 0
        for here, gpus in _shares(other, tier, cluster):
            if here == domain:
                inside += gpus
        if free - inside >= job.gpus:
            free -= inside
        else:
            losers.append(other)
    return losers


def _shares(job: Job, tier: i64, cluster: Cluster) -> list[tuple[int, int]]:
    """(domain of that tier, GPUs) of what a running job holds."""
    allocation = job.allocation
    found: dict[int, int] = {}
    if allocation is None:
        return []
    for part in range(len(allocation.machines)):
        domain = allocation.machines[part]
        for above in range(tier):
            domain = cluster.topology.parents[above][domain]
        found[int(domain)] = found.get(int(domain), 0) + int(allocation.gpus[part])
    return list(found.items())
