"""Delay by price: which free places a gang takes at once, and how long it declines the others."""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Job
from dally.pickles import picklable
from dally.policies.dally.context import BLANK, Context
from dally.policies.dally.delay_overrides import JobDelayOverrides
from dally.policies.dally.limits import SLACK
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit
from dally.policies.queue import DemandClass

RECORD_SLACK: Final = 0.1  # a delay that changes by less is not recorded again


class PricedDelay:
    """Takes the closest place whose price is within its limit, or that the wait has paid for."""

    __slots__ = ("_context", "_rooms", "overrides", "scatters")

    def __init__(self, context: Context, overrides: JobDelayOverrides) -> None:
        self._context: Context = context
        self._rooms: Placement = Placement()
        self.overrides: JobDelayOverrides = overrides
        self.scatters: bool = context.limits.scatter  # in this pass

    def first_choice(self, job: Job, near: i64, due: bool, cluster: Cluster) -> Allocation | None:
        """The cheapest place of the closest tier that has one within its limit; farther away only if it is due."""
        if cluster.free_gpus < job.gpus:
            return None
        limits, prices = self._context.limits, self._context.prices
        chosen: Allocation | None = None
        trial = self._context.reserved.trial(cluster)
        far = self.scatters and due and self.overrides.until_s(job) < 0.0
        for tier in range((cluster.root if far else near) + 1):
            if prices.spent():  # the pass acts on what it knows
                chosen = best_fit(cluster, tier, job.gpus, job.group) if tier <= near else None
                if chosen is not None:
                    break
                continue
            place = prices.cheapest(job, cluster, tier, prices.domains)
            limit = limits.near_price if tier <= near else limits.far_price
            if place is not None and place.price <= limit + SLACK:
                chosen = place.allocation
                break
        trial.undo()
        return chosen

    def any_place(self, job: Job, cluster: Cluster) -> Allocation | None:
        """The closest place there is, for a job whose delay an operator has ended."""
        cluster.focus(job)
        trial = self._context.reserved.trial(cluster)
        place: Allocation | None = None
        for tier in range(cluster.root + 1):
            place = best_fit(cluster, tier, job.gpus, job.group)
            if place is not None:
                break
        trial.undo()
        return place

    def leftover(self, job: Job, group: DemandClass, now: float, cluster: Cluster) -> Allocation | None:
        """A place for a job that was passed over: a little slower, or as slow as its wait has paid for.

        Where no job runs any place will do: waiting would bring nothing. What the job declines is recorded.
        """
        context = self._context
        prices, limits = context.prices, context.limits
        cluster.focus(job)
        if cluster.free_gpus < job.gpus or prices.spent() or not context.retries.is_due(job, now):
            return None
        near = cluster.closest_tier(job)
        left_s = context.ranks.left_s(job) * prices.best(job)
        alone = len(cluster.running) == 0
        chosen: Allocation | None = None
        offered: i64 = -1
        delays_s: vec[float] = vec[float]()  # by tier above the machine
        until_s = self.overrides.until_s(job)
        far = self.scatters and until_s < 0.0
        trial = context.reserved.trial(cluster)
        for tier in range((cluster.root if far else near) + 1):
            place = prices.cheapest(job, cluster, tier, prices.domains)
            delay_s = INFINITY
            if place is not None:
                offered = tier if offered < 0 else offered
                limit = limits.leftover_near_price if tier <= near else limits.leftover_far_price
                at_once = place.price <= limit + SLACK or alone
                if place.price <= limits.patient_price:
                    delay_s = (place.price - 1.0) * left_s
                if at_once or delay_s <= now - job.lost_s:
                    chosen = place.allocation
                    if not at_once:
                        context.reasons.accepted(job, tier, delay_s)
                    break
            if tier > 0:
                delays_s = append(delays_s, delay_s)
        if chosen is None and offered < 0:
            offered = self._rooms.offered(cluster, job.gpus, job.group)
        trial.undo()
        if chosen is None:
            while len(delays_s) < cluster.root:
                delays_s = append(delays_s, until_s - job.lost_s if until_s >= 0.0 else INFINITY)
            context.reasons.offered_to(job, group, offered, delays_s, RECORD_SLACK)
        return chosen


picklable(PricedDelay, Context(*BLANK), JobDelayOverrides())
