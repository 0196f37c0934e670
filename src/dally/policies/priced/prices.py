"""What a place costs, and what stopping a gang costs: one currency for waiting, moving and preempting."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Costs, Job
from dally.perf.base import SpeedModel
from dally.pickles import picklable
from dally.policies.placement.best_fit import best_fit, fill
from dally.policies.view import View

DOMAINS_TRIED = 5


class Place:
    """Somewhere to sit, and its price."""

    __slots__ = ("allocation", "price")

    def __init__(self, allocation: Allocation, price: float) -> None:
        self.allocation: Allocation = allocation
        self.price: float = price


class Prices:
    """Prices of places: the job's slowdown against the best it can hope for, and what it inflicts on others."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view: View = view

    def best(self, job: Job) -> float:
        """The slowdown the job cannot avoid."""
        return self._view.best(job)

    def of(self, job: Job, allocation: Allocation) -> float:
        """1 where it runs as fast as it can and harms nobody."""
        own, inflicted = self._view.slowdown(job, allocation)
        return own / self._view.best(job) + inflicted

    def stop_s(self, job: Job) -> float:
        """Seconds that it costs the gang to lose its GPUs."""
        return self._view.restart_s(job)

    def excess(self, job: Job) -> float:
        """A running job's slowdown against the best it can hope for."""
        return 1.0 / (job.rate * self._view.best(job))

    def cheapest(self, job: Job, cluster: Cluster, tier: i64, most: i64 = DOMAINS_TRIED) -> Place | None:
        """The cheapest place inside one domain of that tier, of the fullest ones with room."""
        if job.group > 1:
            fitting = best_fit(cluster, tier, job.gpus, job.group)
            return Place(fitting, self.of(job, fitting)) if fitting is not None else None
        found: Place | None = None
        best_price = INFINITY
        for domain in cluster.fullest(tier, job.gpus, most):
            allocation = Allocation(tier)
            fill(cluster, tier, domain, job.gpus, allocation)
            price = self.of(job, allocation)
            if price < best_price:
                best_price = price
                found = Place(allocation, price)
            if tier == 0:
                break  # nobody shares a machine's fabric: one machine is as good as another
        return found


picklable(Prices, View(SpeedModel(), Costs()))
