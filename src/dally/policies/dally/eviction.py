"""Cheapest-set preemption: which gangs give way so that a better-ranked one gets a domain of its closest tier."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Job
from dally.policies.dally.kept_domain import Kept
from dally.policies.dally.pricing import Prices
from dally.policies.ordering.gittins import GittinsOrder


class Eviction:
    """A domain and who loses his GPUs for it."""

    __slots__ = ("domain", "losers", "price")

    def __init__(self, domain: i64, losers: list[Job], price: float) -> None:
        self.domain: i64 = domain
        self.losers: list[Job] = losers
        self.price: float = price  # finishes × seconds by which they are put off


class Room:
    """What a domain would have free, and from whom."""

    __slots__ = ("free", "losers")

    def __init__(self, free: i64) -> None:
        self.free: i64 = free
        self.losers: list[Job] = []


def cheapest_eviction(
    job: Job, tier: i64, candidates: list[Job], now: float,
    cluster: Cluster, kept: Kept, order: GittinsOrder, prices: Prices,
) -> Eviction | None:  # fmt: skip
    """The domain of that tier that is cleared at the lowest price; None if preemption cannot do it.

    `candidates` may lose their GPUs to the job, worst-ranked first.
    """
    rooms = rooms_of(job.gpus, tier, candidates, cluster)
    prices.asked += len(candidates)
    stay_s = order.left_s(job)
    found: Eviction | None = None
    for domain in sorted(rooms):
        room = rooms[domain]
        if room.free < job.gpus or kept.overlaps(tier, domain, cluster):
            continue
        losers = needed(job.gpus, room, domain, tier, cluster, order)
        price = price_of(losers, stay_s, now, order, prices)
        if found is None or price < found.price:
            found = Eviction(domain, losers, price)
    return found


def rooms_of(gpus: i64, tier: i64, candidates: list[Job], cluster: Cluster) -> dict[int, Room]:
    """By domain of that tier, room for so many GPUs made from candidates, the first ones first; or all there is."""
    rooms: dict[int, Room] = {}
    for other in candidates:
        for domain, held in _shares(other, tier, cluster):
            room = rooms.get(domain)
            if room is None:
                room = Room(cluster.free[tier][domain])
                rooms[domain] = room
            if room.free < gpus:
                room.free += held
                room.losers.append(other)
    return rooms


def price_of(losers: list[Job], stay_s: float, now: float, order: GittinsOrder, prices: Prices) -> float:
    """Finishes that are put off × by how long: what it costs each to stop, and somebody's stay in its place."""
    price = 0.0
    for other in losers:
        price += (prices.stop_s(other, now) + stay_s) / order.per_finish_s(other)
    return price


def needed(gpus: i64, room: Room, domain: i64, tier: i64, cluster: Cluster, order: GittinsOrder) -> list[Job]:
    """The losers of a domain less those it can do without, the likeliest to end soon spared first."""
    rows = [(order.per_finish_s(other), int(other.index), other) for other in room.losers]
    rows.sort(key=lambda row: row[:2])
    free = room.free
    losers: list[Job] = []
    for _, _, other in rows:
        inside: i64 = 0
        for here, held in _shares(other, tier, cluster):
            if here == domain:
                inside += held
        if free - inside >= gpus:
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
        domain = cluster.topology.domain_of(tier, allocation.machines[part])
        found[int(domain)] = found.get(int(domain), 0) + int(allocation.gpus[part])
    return list(found.items())
