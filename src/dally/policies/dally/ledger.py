"""The ledger of running jobs that may be preempted: worst rank first, and until when each keeps its GPUs."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap, Walk
from dally.model import INFINITY, Job
from dally.pickles import picklable

SPARE: Final = 256  # of the worst-ranked that are listed beyond those asked for: some of them will go


class Running:
    """A running job, its rank, and until when it keeps what it got."""

    __slots__ = ("job", "protected_until_s", "rank")

    def __init__(self, job: Job, rank: float, protected_until_s: float) -> None:
        self.job: Job = job
        self.rank: float = rank
        self.protected_until_s: float = protected_until_s


picklable(Running, Job(0, "", 0.0, 1, 0.0), 0.0, 0.0)


class Ledger:
    """The running jobs of a tenant (policies/gate) that are not non-preemptible."""

    __slots__ = ("_leading", "_protected", "_running", "_spare", "_walk", "_worst")

    def __init__(self, spare: i64 = SPARE) -> None:
        self._spare: i64 = spare
        self._running: list[Running | None] = []  # by job.number; None: it does not run
        # Those who keep what they got for now, by until when; the others by rank, then the lowest number first.
        self._protected: IndexedHeap = IndexedHeap()
        self._worst: IndexedHeap = IndexedHeap(largest_first=True)
        # The first of these in order, as far as somebody asked, kept up to date: many gangs ask in one pass.
        self._leading: list[Running] = []
        self._walk: Walk | None = None  # which has come as far as that; None: there is none since somebody changed

    def add(self, job: Job, rank: float, protected_until_s: float) -> None:
        """The job runs, and is not preempted before then."""
        while len(self._running) <= job.number:
            self._running.append(None)
        self.remove(job)
        self._running[job.number] = Running(job, rank, protected_until_s)
        self._protected.put(job.number, protected_until_s, 0.0)

    def remove(self, job: Job) -> None:
        """The job runs no more."""
        running = self._running[job.number] if job.number < len(self._running) else None
        if running is not None:
            self._running[job.number] = None
            self._protected.discard(job.number)
            if self._worst.holds(job.number):
                self._worst.remove(job.number)
                self._unlist(running)

    def holds(self, job: Job) -> bool:
        """Whether the job may be preempted; others are non-preemptible, or another tenant's."""
        running = self._running[job.number] if job.number < len(self._running) else None
        return running is not None and running.job is job

    def rerank(self, job: Job, rank: float) -> None:
        """A running job's rank has changed."""
        running = self._running[job.number] if job.number < len(self._running) else None
        if running is None:
            return
        if self._worst.holds(job.number):
            self._unlist(running)
            running.rank = rank
            self._put(running)
        else:
            running.rank = rank

    def _of(self, index: i64) -> Running:
        running = self._running[index]
        assert running is not None
        return running

    def _put(self, running: Running) -> None:
        index = running.job.number
        self._worst.put(index, running.rank, -float(index))
        self._walk = None
        place = self._place_of(running)
        if place < len(self._leading):
            self._leading.insert(place, running)

    def _unlist(self, running: Running) -> None:
        self._walk = None
        place = self._place_of(running)
        if place < len(self._leading) and self._leading[place] is running:
            del self._leading[place]

    def _place_of(self, running: Running) -> i64:
        """How many of those listed are ranked worse."""
        low: i64 = 0
        high: i64 = len(self._leading)
        if high > 0 and _is_worse(self._leading[high - 1], running):
            return high  # as most are
        while low < high:
            middle = (low + high) // 2
            if _is_worse(self._leading[middle], running):
                low = middle + 1
            else:
                high = middle
        return low

    def _let_go(self, now: float) -> None:
        """Whoever has kept what he got for long enough may be preempted from now on."""
        while len(self._protected) > 0 and self._protected.key(self._protected.first()) <= now:
            self._put(self._of(self._protected.pop()))

    def worse_than(self, rank: float, stick: float, now: float, first: i64, last: i64) -> list[Job] | None:
        """Of the worst-ranked from the `first` up to before the `last`, who may lose his GPUs to that rank.

        None once there is nobody left.
        """
        self._let_go(now)
        jobs: list[Job] | None = None
        for place in range(first, last):
            running = self._at(place)
            if running is None or stick * running.rank <= rank:
                break
            if jobs is None:
                jobs = []
            if running.job.placed_s < now:
                jobs.append(running.job)
        return jobs

    def _at(self, place: i64) -> Running | None:
        """Who is ranked worst but for so many others."""
        if len(self._leading) <= place:
            self._list(place + 1 + self._spare)
        return self._leading[place] if place < len(self._leading) else None

    def _list(self, count: i64) -> None:
        """List so many of the worst-ranked, or all there are."""
        walk = self._walk
        if walk is None:
            walk = Walk(self._worst)
            self._walk = walk
            self._leading = []
        while len(self._leading) < count:
            item = walk.next()
            if item < 0:
                return
            self._leading.append(self._of(item))

    def ready_s(self, gpus: i64, tier: i64, domain: i64, cluster: Cluster) -> float:
        """From when on a domain has room for so many GPUs if whoever may be preempted is; infinity: never."""
        free = cluster.free[tier][domain]
        first, last = cluster.topology.machines_of(tier, domain)
        rows: list[tuple[float, int]] = []
        for machine in range(first, last):
            for job in cluster.jobs_on[machine]:
                allocation = job.allocation
                if allocation is None or not self.holds(job):
                    continue
                for part in range(len(allocation.machines)):
                    if allocation.machines[part] == machine:
                        until_s = self._of(job.number).protected_until_s
                        rows.append((until_s, int(allocation.gpus[part])))
        rows.sort()
        ready_s = -INFINITY
        for until_s, held in rows:
            if free >= gpus:
                break
            free += held
            ready_s = until_s
        return ready_s if free >= gpus else INFINITY


picklable(Ledger)


def _is_worse(one: Running, other: Running) -> bool:
    """Whether one job is ranked worse than another, or the same and has the lower number."""
    return one.rank > other.rank or (one.rank == other.rank and one.job.number < other.job.number)
