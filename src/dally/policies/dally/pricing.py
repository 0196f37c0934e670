"""What a place costs, and what stopping a gang costs: one currency for waiting, moving and preempting."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Costs, Job
from dally.perf.base import SpeedModel
from dally.pickles import picklable
from dally.policies.dally.limits import Limits
from dally.policies.placement.best_fit import best_fit, fit_into
from dally.policies.view import View


class Place:
    """Somewhere to sit, and its price."""

    __slots__ = ("allocation", "price")

    def __init__(self, allocation: Allocation, price: float) -> None:
        self.allocation: Allocation = allocation
        self.price: float = price


class Prices:
    """Prices of places: the job's slowdown against the best it can hope for, and what it inflicts on others.

    It counts the queries of a pass: beyond the limit the pass goes on without prices.
    """

    __slots__ = ("_inflicted", "_view", "domains", "most", "queries")

    def __init__(self, view: View, limits: Limits) -> None:
        self._view: View = view
        self._inflicted: bool = limits.inflicted
        self.domains: i64 = limits.domains
        self.most: i64 = limits.most_prices
        self.queries: i64 = 0

    def begin_pass(self) -> None:
        """There were no queries yet."""
        self.queries = 0

    def spent(self) -> bool:
        """Whether this pass has asked for as many prices as it may."""
        return self.queries >= self.most

    def best(self, job: Job) -> float:
        """The slowdown the job cannot avoid."""
        return self._view.best(job)

    def of(self, job: Job, allocation: Allocation) -> float:
        """1 where it runs as fast as it can and harms no other job."""
        self.queries += 1
        own, inflicted = self._view.slowdown(job, allocation)
        price = own / self._view.best(job)
        return price + inflicted if self._inflicted else price

    def best_at(self, job: Job, gpus: i64) -> float:
        """The same on another number of GPUs."""
        return self._view.best_at(job, gpus)

    def speedup(self, job: Job, gpus: i64) -> float:
        """Its speed on so many GPUs against that on those it asks for."""
        return self._view.speedup(job, gpus)

    def resize_s(self, job: Job, gpus: i64, now: float) -> float:
        """Seconds that it costs the gang to go on with so many GPUs."""
        return self._view.resize_s(job, gpus) + self._view.at_risk_s(job, now)

    def restart_s(self, job: Job) -> float:
        """Seconds until the gang works again."""
        return self._view.restart_s(job)

    def at_risk_s(self, job: Job, now: float) -> float:
        """Seconds of work since its checkpoint, which a stop puts at risk."""
        return self._view.at_risk_s(job, now)

    def stop_s(self, job: Job, now: float) -> float:
        """Seconds that it costs the gang to lose its GPUs now: the restart, and what is not saved yet."""
        return self._view.restart_s(job) + self._view.at_risk_s(job, now)

    def excess(self, job: Job) -> float:
        """A running job's slowdown against the best it can hope for."""
        return self._view.slowdown_now(job) / self._view.best(job)

    def cheapest(self, job: Job, cluster: Cluster, tier: i64, most: i64) -> Place | None:
        """The cheapest place inside one domain of that tier, of the `most` fullest ones with room."""
        return self.cheapest_at(job, job.gpus, cluster, tier, most)

    def cheapest_at(self, job: Job, gpus: i64, cluster: Cluster, tier: i64, most: i64) -> Place | None:
        """The same for another number of GPUs."""
        if job.group > 1 and not cluster.in_groups:
            fitting = best_fit(cluster, tier, gpus, job.group)
            return Place(fitting, self.of(job, fitting)) if fitting is not None else None
        place: Place | None = None
        best_price = INFINITY
        for domain in cluster.fullest(tier, gpus, most):
            allocation = fit_into(cluster, tier, domain, gpus)
            price = self.of(job, allocation)
            if price < best_price:
                best_price = price
                place = Place(allocation, price)
            if tier == 0:
                break  # no other job shares a machine's fabric: one machine is as good as another
        return place


picklable(Prices, View(SpeedModel(), Costs()), Limits())
