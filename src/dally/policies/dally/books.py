"""Who runs: worst rank first, and until when each keeps what it got."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Job
from dally.pickles import picklable

FEW: Final = 512  # changes since somebody last asked, below which mending the list beats sorting it


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

    __slots__ = ("_changes", "_running", "_worst")

    def __init__(self) -> None:
        self._running: dict[int, Running] = {}
        # Worst rank first: (-rank, number). Sorted once somebody asks, mended while little changes.
        self._worst: list[tuple[float, int]] = []
        self._changes: i64 = FEW  # since somebody asked

    def add(self, job: Job, rank: float, keeps_until_s: float) -> None:
        """The job runs, and is not preempted before then."""
        self.remove(job)
        self._running[int(job.index)] = Running(job, rank, keeps_until_s)
        self._insert(job.index, rank)

    def remove(self, job: Job) -> None:
        """The job runs no more."""
        found = self._running.pop(int(job.index), None)
        if found is not None:
            self._take_out(job.index, found.rank)

    def rerank(self, job: Job, rank: float) -> None:
        """A running job's rank has changed."""
        found = self._running[int(job.index)]
        self._take_out(job.index, found.rank)
        found.rank = rank
        self._insert(job.index, rank)

    def _insert(self, index: i64, rank: float) -> None:
        self._changes += 1
        if self._changes < FEW:
            insort(self._worst, (-rank, int(index)))

    def _take_out(self, index: i64, rank: float) -> None:
        self._changes += 1
        if self._changes < FEW:
            del self._worst[bisect_left(self._worst, (-rank, int(index)))]

    def begin_asking(self) -> None:
        """Somebody asks who is worst-ranked: from here on until ranks change much the list is right."""
        if self._changes >= FEW:
            self._worst = [(-found.rank, index) for index, found in self._running.items()]
            self._worst.sort()
        self._changes = 0

    def worse_than(self, rank: float, stick: float, now: float, first: i64, last: i64) -> list[Job] | None:
        """Of the worst-ranked from the `first` up to before the `last`, who may lose his GPUs to that rank.

        None once there is nobody left. `begin_asking` comes before.
        """
        found: list[Job] | None = None
        for place in range(first, min(last, len(self._worst))):
            key, index = self._worst[place]
            if stick * -key <= rank:
                break
            if found is None:
                found = []
            running = self._running[index]
            if running.keeps_until_s <= now and running.job.placed_s < now:
                found.append(running.job)
        return found

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
                        until_s = self._running[int(job.index)].keeps_until_s
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
