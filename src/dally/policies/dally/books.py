"""Who runs: worst rank first, and until when each keeps what it got."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap, Walk
from dally.model import INFINITY, Job
from dally.pickles import picklable


class Running:
    """A running job, its rank, and until when it keeps what it got."""

    __slots__ = ("job", "keeps_until_s", "rank")

    def __init__(self, job: Job, rank: float, keeps_until_s: float) -> None:
        self.job: Job = job
        self.rank: float = rank
        self.keeps_until_s: float = keeps_until_s


picklable(Running, Job(0, "", 0.0, 1, 0.0), 0.0, 0.0)


class Books:
    """The running jobs."""

    __slots__ = ("_keeping", "_leading", "_running", "_walk", "_worst")

    def __init__(self) -> None:
        self._running: list[Running | None] = []  # by job index; None: it does not run
        # Those who keep what they got for now, by until when; the others by rank, then the lowest number first.
        self._keeping: IndexedHeap = IndexedHeap()
        self._worst: IndexedHeap = IndexedHeap(largest_first=True)
        # The worst-ranked as far as somebody asked, until one changes: gangs of many sizes ask in one pass.
        self._leading: list[Running] = []
        self._walk: Walk | None = None

    def add(self, job: Job, rank: float, keeps_until_s: float) -> None:
        """The job runs, and is not preempted before then."""
        while len(self._running) <= job.index:
            self._running.append(None)
        self._running[job.index] = Running(job, rank, keeps_until_s)
        self._leave_worst(job)
        self._keeping.put(job.index, keeps_until_s, 0.0)

    def remove(self, job: Job) -> None:
        """The job runs no more."""
        if job.index < len(self._running) and self._running[job.index] is not None:
            self._running[job.index] = None
            self._keeping.discard(job.index)
            self._leave_worst(job)

    def rerank(self, job: Job, rank: float) -> None:
        """A running job's rank has changed."""
        self._of(job.index).rank = rank
        if not self._keeping.holds(job.index):
            self._put(job, rank)

    def _of(self, index: i64) -> Running:
        found = self._running[index]
        assert found is not None
        return found

    def _put(self, job: Job, rank: float) -> None:
        self._worst.put(job.index, rank, -float(job.index))
        self._forget_walk()

    def _leave_worst(self, job: Job) -> None:
        if self._worst.holds(job.index):
            self._worst.remove(job.index)
            self._forget_walk()

    def _forget_walk(self) -> None:
        if self._walk is not None:
            self._walk = None
            self._leading = []  # nothing is to keep a job that is gone

    def _let_go(self, now: float) -> None:
        """Whoever has kept what he got for long enough may be preempted from now on."""
        while len(self._keeping) > 0 and self._keeping.key(self._keeping.first()) <= now:
            running = self._of(self._keeping.pop())
            self._put(running.job, running.rank)

    def worse_than(self, rank: float, stick: float, now: float, first: i64, last: i64) -> list[Job] | None:
        """Of the worst-ranked from the `first` up to before the `last`, who may lose his GPUs to that rank.

        None once there is nobody left.
        """
        self._let_go(now)
        found: list[Job] | None = None
        for place in range(first, last):
            running = self._at(place)
            if running is None or stick * running.rank <= rank:
                break
            if found is None:
                found = []
            if running.job.placed_s < now:
                found.append(running.job)
        return found

    def _at(self, place: i64) -> Running | None:
        """Who is ranked worst but for so many others."""
        walk = self._walk
        if walk is None:
            walk = Walk(self._worst)
            self._walk = walk
        while len(self._leading) <= place:
            item = walk.next()
            if item < 0:
                return None
            self._leading.append(self._of(item))
        return self._leading[place]

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
                        until_s = self._of(job.index).keeps_until_s
                        rows.append((until_s, int(allocation.gpus[part])))
        rows.sort()
        ready_s = -INFINITY
        for until_s, held in rows:
            if free >= gpus:
                break
            free += held
            ready_s = until_s
        return ready_s if free >= gpus else INFINITY


picklable(Books)
