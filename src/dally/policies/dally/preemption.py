"""Preemption: which gangs give way, at the lowest price, to a better-ranked one at its closest tier.

Alone, or together with moves: a domain opened by moving jobs that keep their speed and preempting others.
"""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.dally.compaction import cost_of, fewest, moved_out
from dally.policies.dally.context import Context
from dally.policies.dally.movable import Move
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.victims import makes_room


class Eviction:
    """A domain, and the jobs that lose their GPUs for it."""

    __slots__ = ("domain", "losers", "price")

    def __init__(self, domain: i64, losers: list[Job], price: float) -> None:
        self.domain: i64 = domain
        self.losers: list[Job] = losers
        self.price: float = price  # finishes × seconds by which they are put off


class Room:
    """What a domain would have free, and from which jobs."""

    __slots__ = ("free", "held", "losers")

    def __init__(self, free: i64) -> None:
        self.free: i64 = free
        self.losers: list[Job] = []
        self.held: vec[i64] = vec[i64]()  # GPUs that each of them has there


def cheapest_eviction(
    job: Job, tier: i64, rooms: dict[int, Room], now: float, cluster: Cluster, context: Context
) -> Eviction | None:
    """The domain of that tier that is cleared at the lowest price; None if preemption cannot do it.

    `rooms`: what each domain has for the job if the jobs are preempted that may be.
    """
    residence_s = context.ranks.left_s(job)
    domains = [domain for domain, room in rooms.items() if room.free >= job.gpus]
    domains.sort()
    cheapest: Eviction | None = None
    for domain in domains:
        if context.reserved.overlaps(tier, domain, cluster):
            continue
        losers = needed(job.gpus, rooms[domain], context.ranks)
        if not makes_room(job, tier, domain, losers, cluster):
            continue
        price = price_of(losers, residence_s, now, context)
        if cheapest is None or price < cheapest.price:
            cheapest = Eviction(domain, losers, price)
    return cheapest


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


def price_of(losers: list[Job], residence_s: float, now: float, context: Context) -> float:
    """Finishes that are put off × by how long: what it costs each to stop, and another's stay in its place."""
    price = 0.0
    for other in losers:
        price += (context.prices.stop_s(other, now) + residence_s) / context.ranks.per_finish_s(other)
    return price


def needed(gpus: i64, room: Room, ranks: GittinsOrder) -> list[Job]:
    """The losers of a domain less those it can do without, the likeliest to end soon spared first."""
    free = room.free
    if len(room.losers) == 1 and free - room.held[0] < gpus:
        return room.losers
    rows: list[tuple[float, int, int]] = []
    for place, other in enumerate(room.losers):
        rows.append((ranks.per_finish_s(other), int(other.index), place))
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
    shares: dict[int, int] = {}
    for part in range(len(allocation.machines)):
        domain = int(cluster.topology.domain_of(tier, allocation.machines[part]))
        shares[domain] = shares.get(domain, 0) + int(allocation.gpus[part])
    return shares


class Opening:
    """A domain, the moves out of it, the jobs that are preempted, and the price of both."""

    __slots__ = ("domain", "losers", "moves", "price")

    def __init__(self, domain: i64, moves: list[Move], losers: list[Job], price: float) -> None:
        self.domain: i64 = domain
        self.moves: list[Move] = moves
        self.losers: list[Job] = losers
        self.price: float = price


def cheapest_opening(
    job: Job, tier: i64, rooms: dict[int, Room], now: float, cluster: Cluster, context: Context
) -> Opening | None:
    """A domain of that tier opened where preemption alone does not reach, at the lowest price; None: no way.

    `rooms`: what each domain has for the job if the jobs are preempted that may be; they are used up.
    """
    if tier >= cluster.root:
        return None
    cheapest: Opening | None = None
    rows = [(-int(room.free), domain) for domain, room in rooms.items()]
    rows.sort()
    for _, domain in rows[: context.limits.clear_domains]:
        if context.reserved.overlaps(tier, domain, cluster):
            continue
        opening = _opening(job, tier, domain, rooms[domain], now, cluster, context)
        if opening is not None and (cheapest is None or opening.price < cheapest.price):
            cheapest = opening
    return cheapest


def _opening(
    job: Job, tier: i64, domain: i64, room: Room, now: float, cluster: Cluster, context: Context
) -> Opening | None:
    """How this domain is opened: all its candidates preempted, others moved out, then some spared."""
    ranks = context.ranks
    stopped = {int(other.index) for other in room.losers}
    inside = context.movable.inside(tier, domain, now, cluster, context.prices)
    remaining = [other for other in inside if int(other.index) not in stopped]
    leaving = fewest(remaining, room.free, job.gpus)
    cost_gpu_s = cost_of(leaving, now, context.prices)
    if not leaving or context.limits.clear_worth * cost_gpu_s > float(job.gpus) * ranks.left_s(job):
        return None
    moves = moved_out(leaving, tier, domain, now, cluster, context)
    cluster.focus(job)
    if not moves:
        return None
    for other in leaving:
        room.free += other.gpus
    losers = needed(job.gpus, room, ranks)
    if not makes_room(job, tier, domain, [*leaving, *losers], cluster):
        return None
    price = price_of(losers, ranks.left_s(job), now, context) + price_of(leaving, 0.0, now, context)
    return Opening(domain, moves, losers, price)
