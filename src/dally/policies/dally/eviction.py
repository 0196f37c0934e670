"""Cheapest-set preemption: which gangs give way so that a better-ranked one gets a domain of its closest tier."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
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

    __slots__ = ("free", "held", "losers")

    def __init__(self, free: i64) -> None:
        self.free: i64 = free
        self.losers: list[Job] = []
        self.held: vec[i64] = vec[i64]()  # GPUs that each of them has there


def cheapest_eviction(
    job: Job, tier: i64, rooms: dict[int, Room], now: float,
    cluster: Cluster, kept: Kept, order: GittinsOrder, prices: Prices,
) -> Eviction | None:  # fmt: skip
    """The domain of that tier that is cleared at the lowest price; None if preemption cannot do it.

    `rooms`: what each domain has for the job if those preempted who may be.
    """
    stay_s = order.left_s(job)
    domains = [domain for domain, room in rooms.items() if room.free >= job.gpus]
    domains.sort()
    found: Eviction | None = None
    for domain in domains:
        if kept.overlaps(tier, domain, cluster):
            continue
        losers = needed(job.gpus, rooms[domain], order)
        price = price_of(losers, stay_s, now, order, prices)
        if found is None or price < found.price:
            found = Eviction(domain, losers, price)
    return found


def add_candidates(rooms: dict[int, Room], gpus: i64, tier: i64, candidates: list[Job], cluster: Cluster) -> i64:
    """Make room for so many GPUs in domains of that tier out of these candidates, the first ones first.

    Returns how many domains came to have enough by it.
    """
    enough: i64 = 0
    for other in candidates:
        allocation = other.allocation
        if allocation is None:
            continue
        if other.tier <= tier:  # one domain holds it all
            domain = cluster.topology.domain_of(tier, allocation.machines[0])
            enough += _add(rooms, gpus, tier, domain, other, other.gpus, cluster)
            continue
        for place, held in _shares(allocation, tier, cluster).items():
            enough += _add(rooms, gpus, tier, place, other, held, cluster)
    return enough


def _add(rooms: dict[int, Room], gpus: i64, tier: i64, domain: i64, other: Job, held: i64, cluster: Cluster) -> i64:
    """Let a domain have what a candidate holds there, unless it has enough; 1 if that is enough, else 0."""
    room = rooms.get(int(domain))
    if room is None:
        room = Room(cluster.free[tier][domain])
        rooms[int(domain)] = room
    if room.free >= gpus:
        return 0
    room.free += held
    room.losers.append(other)
    room.held = append(room.held, held)
    return 1 if room.free >= gpus else 0


def price_of(losers: list[Job], stay_s: float, now: float, order: GittinsOrder, prices: Prices) -> float:
    """Finishes that are put off × by how long: what it costs each to stop, and somebody's stay in its place."""
    price = 0.0
    for other in losers:
        price += (prices.stop_s(other, now) + stay_s) / order.per_finish_s(other)
    return price


def needed(gpus: i64, room: Room, order: GittinsOrder) -> list[Job]:
    """The losers of a domain less those it can do without, the likeliest to end soon spared first."""
    free = room.free
    if len(room.losers) == 1 and free - room.held[0] < gpus:
        return room.losers
    rows: list[tuple[float, int, int]] = []
    for place, other in enumerate(room.losers):
        rows.append((order.per_finish_s(other), int(other.index), place))
    rows.sort()
    losers: list[Job] = []
    for _, _, place in rows:
        if free - room.held[place] >= gpus:
            free -= room.held[place]
        else:
            losers.append(room.losers[place])
    return losers


def _shares(allocation: Allocation, tier: i64, cluster: Cluster) -> dict[int, int]:
    """By domain of that tier, the GPUs of an allocation."""
    found: dict[int, int] = {}
    for part in range(len(allocation.machines)):
        domain = int(cluster.topology.domain_of(tier, allocation.machines[part]))
        found[domain] = found.get(domain, 0) + int(allocation.gpus[part])
    return found
