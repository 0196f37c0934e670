"""The queue of waiting jobs, grouped by demand so that a pass looks at one job per demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64

from dally.errors import PolicyError
from dally.heap import IndexedHeap
from dally.model import INFINITY, WAITING, Job

MOST_KINDS: Final = 1048576  # a policy tells apart among jobs of one size: 20 bits of a demand


def demand(job: Job) -> int:
    """What the job asks for as one number that rises with its GPUs: those, how they are grouped, its kind."""
    return int(job.gpus * 68719476736 + job.group * MOST_KINDS + job.kind)  # groups share a machine: below 2^16


class DemandClass:
    """Waiting jobs that ask for the same, best-ranked first.

    A job's slot, its place in order of first arrival, stays its own when it comes back.
    """

    __slots__ = ("closed", "gpus", "heap", "jobs")

    def __init__(self, gpus: i64) -> None:
        self.gpus: i64 = gpus
        self.jobs: list[Job] = []
        self.heap: IndexedHeap = IndexedHeap()
        self.closed: i64 = 0  # the pass in which nobody here is to be offered anything more


class Queue:
    """Waiting jobs by rank: (key, tie, order of submission), lowest first."""

    __slots__ = ("_by_demand", "_pass", "_size", "_taken", "classes")

    def __init__(self) -> None:
        self.classes: list[DemandClass] = []  # by rising demand
        self._by_demand: dict[int, DemandClass] = {}
        self._size: i64 = 0
        self._pass: i64 = 1
        self._taken: list[Job] = []

    def __len__(self) -> int:
        return int(self._size)

    def __iter__(self) -> Iterator[Job]:
        """All waiting jobs in order of rank. Costs a sort: fine for a first policy, not for a fast one."""
        rows: list[tuple[float, float, int, Job]] = []
        for group in self.classes:
            for slot in group.heap.items:
                job = group.jobs[slot]
                rows.append((group.heap.key(slot), group.heap.tie(slot), int(job.index), job))
        rows.sort(key=lambda row: row[:3])
        return iter([row[3] for row in rows])

    def class_of(self, job: Job) -> DemandClass:
        """The class of jobs that ask for the same, made when it is first asked for."""
        key = demand(job)
        found = self._by_demand.get(key)
        if found is None:
            found = DemandClass(job.gpus)
            self._by_demand[key] = found
            place = 0
            while place < len(self.classes) and self.classes[place].gpus <= job.gpus:
                place += 1
            self.classes.insert(place, found)
        return found

    def add(self, job: Job, key: float, tie: float) -> None:
        group = self.class_of(job)
        if job.slot < 0:
            if job.kind < 0 or job.kind >= MOST_KINDS:
                raise PolicyError(f"{job!r}: kind {int(job.kind)}: must be from 0 to {MOST_KINDS - 1}")
            job.slot = len(group.jobs)
            group.jobs.append(job)
        group.heap.put(job.slot, key, tie)
        self._size += 1

    def remove(self, job: Job) -> None:
        """Take out a job that got GPUs; one that `take` handed out is out already."""
        group = self.class_of(job)
        if group.heap.holds(job.slot):
            group.heap.remove(job.slot)
            self._size -= 1

    def rerank(self, job: Job, key: float, tie: float) -> None:
        """A waiting job's rank has changed."""
        self.class_of(job).heap.put(job.slot, key, tie)

    def key(self, job: Job) -> float:
        """The key under which the job waits."""
        return self.class_of(job).heap.key(job.slot)

    def best(self, most_gpus: float = INFINITY) -> Job | None:
        """The best-ranked job that asks for at most that many GPUs, of the classes not closed."""
        found: Job | None = None
        best_key = 0.0
        best_tie = 0.0
        for group in self.classes:
            if float(group.gpus) > most_gpus:
                break
            slot = group.heap.first()
            if slot < 0 or self.is_closed(group):
                continue
            key = group.heap.key(slot)
            tie = group.heap.tie(slot)
            job = group.jobs[slot]
            if (
                found is None
                or key < best_key
                or (key == best_key and (tie < best_tie or (tie == best_tie and job.index < found.index)))
            ):
                found = job
                best_key = key
                best_tie = tie
        return found

    def take(self, job: Job) -> None:
        """Set a job aside for the rest of this pass; it comes back unless it is started."""
        self.remove(job)
        self._taken.append(job)

    def close(self, job: Job) -> None:
        """Offer nothing more to jobs that ask for the same as this one in this pass."""
        self.class_of(job).closed = self._pass

    def reopen(self) -> None:
        """Open every class again, for another round of offers in the same pass; jobs set aside stay aside."""
        self._pass += 1

    def is_closed(self, group: DemandClass) -> bool:
        return group.closed == self._pass

    def end_pass(self) -> None:
        """Open every class and put back the jobs set aside that still wait, each under its old key."""
        self._pass += 1
        for job in self._taken:
            heap = self.class_of(job).heap
            if job.status == WAITING and not heap.holds(job.slot):
                self.add(job, heap.key(job.slot), heap.tie(job.slot))
        self._taken.clear()
