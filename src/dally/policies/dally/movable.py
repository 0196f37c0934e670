"""Who may be moved out of a domain."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import NEVER, Job
from dally.pickles import picklable
from dally.policies.dally.books import Books
from dally.policies.dally.churn import Churn
from dally.policies.dally.limits import Limits
from dally.policies.dally.pricing import Prices


class Movable:
    """Gangs at work that lie wholly inside a domain and have not moved too often, smallest first.

    Gangs of many sizes ask about the same domains in one pass: what was found is remembered until somebody
    starts or stops.
    """

    __slots__ = ("_books", "_churn", "_known", "_now")

    def __init__(self, churn: Churn, books: Books | None = None) -> None:
        """`books`: of those who may move; without them all may."""
        self._churn: Churn = churn
        self._books: Books | None = books
        self._now: float = NEVER
        self._known: dict[tuple[int, int], list[Job]] = {}

    def forget(self) -> None:
        """Somebody started or stopped."""
        if self._known:
            self._known.clear()

    def inside(self, tier: i64, domain: i64, now: float, cluster: Cluster, prices: Prices) -> list[Job]:
        """Those of that domain; looking at them counts as asking for prices."""
        if now != self._now:
            self._now = now
            self.forget()
        key = (int(tier), int(domain))
        found = self._known.get(key)
        if found is None:
            found = self._look(tier, domain, now, cluster)
            prices.asked += len(found)
            self._known[key] = found
        return found

    def _look(self, tier: i64, domain: i64, now: float, cluster: Cluster) -> list[Job]:
        first, last = cluster.topology.machines_of(tier, domain)
        seen: dict[int, Job] = {}
        for machine in range(first, last):
            for other in cluster.jobs_on[machine]:
                held = other.allocation
                assert held is not None
                if other.tier > tier or held.machines[0] != machine:  # each gang once
                    continue
                if self._books is not None and not self._books.holds(other):
                    continue
                if other.group == 1 and other.since_s <= now and other.placed_s < now:
                    seen[int(other.index)] = other
        rows = [(int(other.gpus), int(other.index)) for other in seen.values() if self._churn.may_move(other, now)]
        rows.sort()
        return [seen[row[1]] for row in rows]


picklable(Movable, Churn(Limits()))
