"""Moves and preemptions together: a domain opened by moving those who may stay and stopping those who may not."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Job
from dally.policies.dally.compaction import cost_of, fewest, moved_out
from dally.policies.dally.eviction import Room, needed, price_of
from dally.policies.dally.kept_domain import Kept
from dally.policies.dally.limits import Limits
from dally.policies.dally.movable import Movable
from dally.policies.dally.moves import Move
from dally.policies.dally.pricing import Prices
from dally.policies.ordering.gittins import GittinsOrder


class Opening:
    """A domain, who moves out of it, who is stopped, and the price of both."""

    __slots__ = ("domain", "losers", "moves", "price")

    def __init__(self, domain: i64, moves: list[Move], losers: list[Job], price: float) -> None:
        self.domain: i64 = domain
        self.moves: list[Move] = moves
        self.losers: list[Job] = losers
        self.price: float = price


def cheapest_opening(
    job: Job, tier: i64, rooms: dict[int, Room], now: float,
    cluster: Cluster, kept: Kept, limits: Limits, order: GittinsOrder, prices: Prices, movable: Movable,
) -> Opening | None:  # fmt: skip
    """A domain of that tier opened where preemption alone does not reach, at the lowest price; None: no way.

    `rooms`: what each domain has for the job if those are preempted who may be; they are used up.
    """
    if tier >= cluster.root:
        return None
    found: Opening | None = None
    rows = [(-int(room.free), domain) for domain, room in rooms.items()]
    rows.sort()
    for _, domain in rows[: limits.clear_domains]:
        if kept.overlaps(tier, domain, cluster):
            continue
        opening = _opening(job, tier, domain, rooms[domain], now, cluster, kept, limits, order, prices, movable)
        if opening is not None and (found is None or opening.price < found.price):
            found = opening
    return found


def _opening(
    job: Job, tier: i64, domain: i64, room: Room, now: float,
    cluster: Cluster, kept: Kept, limits: Limits, order: GittinsOrder, prices: Prices, movable: Movable,
) -> Opening | None:  # fmt: skip
    """How this domain is opened: all its candidates stopped, others moved out, then whoever is spared."""
    stopped = {int(other.index) for other in room.losers}
    inside = movable.inside(tier, domain, now, cluster, prices)
    staying = [other for other in inside if int(other.index) not in stopped]
    leaving = fewest(staying, room.free, job.gpus)
    cost_gpu_s = cost_of(leaving, now, prices)
    if not leaving or limits.clear_worth * cost_gpu_s > float(job.gpus) * order.left_s(job):
        return None
    moves = moved_out(leaving, tier, domain, now, cluster, kept, prices)
    if not moves:
        return None
    for other in leaving:
        room.free += other.gpus
    losers = needed(job.gpus, room, order)
    price = price_of(losers, order.left_s(job), now, order, prices) + price_of(leaving, 0.0, now, order, prices)
    return Opening(domain, moves, losers, price)
