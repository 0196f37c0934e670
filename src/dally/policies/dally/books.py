"""Who runs: worst rank first, spread over machines or not, and until when each keeps what it got."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.dally.pricing import Prices
from dally.policies.ordering.gittins import GittinsOrder


class Books:
    """The running jobs."""

    __slots__ = ("_keeps_until_s", "_worst", "spread")

    def __init__(self) -> None:
        self.spread: dict[int, Job] = {}  # running gangs on several machines
        self._worst: IndexedHeap = IndexedHeap(largest_first=True)  # by rank
        self._keeps_until_s: dict[int, float] = {}

    def add(self, job: Job, rank: float, keeps_until_s: float) -> None:
        """The job runs, and is not preempted before then."""
        self._keeps_until_s[int(job.index)] = keeps_until_s
        self._worst.put(job.index, rank, 0.0)
        allocation = job.allocation
        if allocation is not None and len(allocation.machines) > 1:
            self.spread[int(job.index)] = job

    def remove(self, job: Job) -> None:
        """The job runs no more."""
        self._worst.discard(job.index)
        self._keeps_until_s.pop(int(job.index), None)
        self.spread.pop(int(job.index), None)

    def rerank(self, job: Job, rank: float) -> None:
        """A running job's rank has changed."""
        self._worst.put(job.index, rank, 0.0)

    def worse_than(self, rank: float, stick: float, now: float, order: GittinsOrder) -> list[Job]:
        """Running jobs that may lose their GPUs to one of that rank, the worst-ranked first."""
        worst = self._worst.first()
        if worst < 0 or stick * self._worst.key(worst) <= rank:
            return []
        rows: list[tuple[float, int]] = []
        for item in self._worst.items:
            key = self._worst.key(item)
            if stick * key > rank and self._keeps_until_s[int(item)] <= now:
                rows.append((-key, int(item)))
        rows.sort()
        found: list[Job] = []
        for row in rows:
            other = order.ranked_at(row[1])
            if other.placed_s < now:
                found.append(other)
        return found

    def slowdown(self, cluster: Cluster, prices: Prices) -> float:
        """How many times slower than they could those who run do so, weighed by their GPUs."""
        running = float(cluster.topology.total_gpus() - cluster.free_gpus)
        lost = 0.0
        for job in self.spread.values():
            if job.rate > 0.0:
                lost += (prices.excess(job) - 1.0) * float(job.gpus)
        return 1.0 + lost / running if running > 0.0 else 1.0

    def ready_s(self, gpus: i64, tier: i64, domain: i64, cluster: Cluster) -> float:
        """From when on a domain has room for so many GPUs if whoever may be preempted is; infinity: never."""
        free = cluster.free[tier][domain]
        first, last = cluster.topology.machines_of(tier, domain)
        rows: list[tuple[float, int]] = []
        for machine in range(first, last):
            for job in cluster.jobs_on[machine]:
                allocation = job.allocation
                assert allocation is not None
                for part in range(len(allocation.machines)):
                    if allocation.machines[part] == machine:
                        rows.append((self._keeps_until_s[int(job.index)], int(allocation.gpus[part])))
        rows.sort()
        ready_s = -INFINITY
        for until_s, held in rows:
            if free >= gpus:
                break
            free += held
            ready_s = until_s
        return ready_s if free >= gpus else INFINITY


picklable(Books)
