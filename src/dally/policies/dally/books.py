"""Who runs: worst rank first, and until when each keeps what it got."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.ordering.gittins import GittinsOrder

ROUNDED: Final = 1.0 - 1e-9


class Books:
    """The running jobs."""

    __slots__ = ("_keeps_until_s", "_leading", "_reach", "_worst")

    def __init__(self) -> None:
        self._worst: IndexedHeap = IndexedHeap(largest_first=True)  # by rank
        self._keeps_until_s: dict[int, float] = {}
        self._leading: list[tuple[float, int]] = []  # (-rank, job) of those who ran worst-ranked as was last asked,
        self._reach: float = INFINITY  # down to this rank

    def add(self, job: Job, rank: float, keeps_until_s: float) -> None:
        """The job runs, and is not preempted before then."""
        self._keeps_until_s[int(job.index)] = keeps_until_s
        self._worst.put(job.index, rank, 0.0)

    def remove(self, job: Job) -> None:
        """The job runs no more."""
        self._worst.discard(job.index)
        self._keeps_until_s.pop(int(job.index), None)

    def rerank(self, job: Job, rank: float) -> None:
        """A running job's rank has changed."""
        self._worst.put(job.index, rank, 0.0)

    def begin_pass(self) -> None:
        """Ranks and holds may have changed; from here on only jobs that start or stop do so."""
        self._leading = []
        self._reach = INFINITY

    def worse_than(self, rank: float, stick: float, now: float, most: i64, order: GittinsOrder) -> list[Job]:
        """Running jobs that may lose their GPUs to one of that rank, the worst-ranked first.

        Of many, only the `most` worst-ranked are looked at.
        """
        worst = self._worst.first()
        if worst < 0 or stick * self._worst.key(worst) <= rank:
            return []
        if rank < self._reach:
            self._look_down_to(rank, stick, most)
        found: list[Job] = []
        for key, index in self._leading:
            if stick * -key <= rank:
                break
            other = order.ranked_at(index)
            until_s = self._keeps_until_s.get(index, INFINITY)
            if until_s <= now and other.placed_s < now:
                found.append(other)
        return found

    def _look_down_to(self, rank: float, stick: float, most: i64) -> None:
        """Note who is ranked worst: it serves the whole pass, as who comes next in it is ranked no better."""
        rows: list[tuple[float, int]] = []
        beyond = ROUNDED * rank / stick if stick > 0.0 else INFINITY  # the product decides, below
        for item in self._worst.leading(most, beyond):
            key = self._worst.key(item)
            if stick * key > rank:
                rows.append((-key, int(item)))
        rows.sort()
        self._leading = rows
        self._reach = rank

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
