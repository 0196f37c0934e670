"""Moves of running jobs, and which jobs may be moved out of a domain."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import NEVER, Allocation, Job
from dally.pickles import picklable
from dally.policies.dally.churn import Churn
from dally.policies.dally.ledger import Ledger
from dally.policies.dally.limits import Limits
from dally.policies.dally.pricing import Prices


class Move:
    """A running job, where it would go, and what that costs and brings it, in seconds."""

    __slots__ = ("allocation", "cost_s", "job", "saved_s")

    def __init__(self, job: Job, allocation: Allocation, cost_s: float, saved_s: float) -> None:
        self.job: Job = job
        self.allocation: Allocation = allocation
        self.cost_s: float = cost_s
        self.saved_s: float = saved_s


class Movable:
    """Gangs at work that lie wholly inside a domain and have not moved too often, smallest first.

    Gangs of many sizes ask about the same domains in one pass: the answer is remembered until a job starts or
    stops.
    """

    __slots__ = ("_churn", "_known", "_ledger", "_now")

    def __init__(self, churn: Churn, ledger: Ledger | None = None) -> None:
        """`ledger`: of the jobs that may move; without it all may."""
        self._churn: Churn = churn
        self._ledger: Ledger | None = ledger
        self._now: float = NEVER
        self._known: dict[tuple[int, int], list[Job]] = {}

    def forget(self) -> None:
        """A job started or stopped."""
        if self._known:
            self._known.clear()

    def inside(self, tier: i64, domain: i64, now: float, cluster: Cluster, prices: Prices) -> list[Job]:
        """Those of that domain; looking at them counts as asking for prices."""
        if now != self._now:
            self._now = now
            self.forget()
        key = (int(tier), int(domain))
        jobs = self._known.get(key)
        if jobs is None:
            jobs = self._look(tier, domain, now, cluster)
            prices.queries += len(jobs)
            self._known[key] = jobs
        return jobs

    def _look(self, tier: i64, domain: i64, now: float, cluster: Cluster) -> list[Job]:
        first, last = cluster.topology.machines_of(tier, domain)
        seen: dict[int, Job] = {}
        for machine in range(first, last):
            for other in cluster.jobs_on[machine]:
                held = other.allocation
                assert held is not None
                if other.tier > tier or held.machines[0] != machine:  # each gang once
                    continue
                if other.non_migratable or (self._ledger is not None and not self._ledger.holds(other)):
                    continue
                if cluster.counts_suffice(other) and other.since_s <= now and other.placed_s < now:
                    seen[int(other.index)] = other
        rows = [(int(other.gpus), int(other.index)) for other in seen.values() if self._churn.may_move(other, now)]
        rows.sort()
        return [seen[row[1]] for row in rows]


picklable(Movable, Churn(Limits()))
