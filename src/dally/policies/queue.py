"""The queue of waiting jobs, grouped by demand so that a pass looks at one job per demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from dally.errors import PolicyError
from dally.heap import IndexedHeap
from dally.model import INFINITY, WAITING, Job
from dally.pickles import picklable
from dally.policies.ripeness import Ripeness

MOST_KINDS: Final = 1048576  # a policy tells apart among jobs of one size: 20 bits of a demand


def demand(job: Job) -> int:
    """What the job asks for as one number that rises with its GPUs: those, how they are grouped, its kind."""
    return int(job.gpus * 68719476736 + job.group * MOST_KINDS + job.kind)  # groups share a machine: below 2^16


class DemandClass:
    """Waiting jobs that ask for the same, best-ranked first.

    A job's slot, its place in order of first arrival, stays its own when it comes back.
    """

    __slots__ = (
        "closed", "demand", "gpus", "group", "heap", "jobs", "number", "offered_job", "offered_tier",
        "offered_timers_s", "ripeness",
    )  # fmt: skip

    def __init__(self, gpus: i64, group: i64, asked: int, number: i64) -> None:
        self.gpus: i64 = gpus
        self.group: i64 = group  # GPUs that must share a machine
        self.demand: int = asked  # as `demand` puts it
        self.number: i64 = number  # of the queue's classes, in the order in which they were made
        self.jobs: list[Job | None] = []  # by slot; None once a job is gone for good
        self.heap: IndexedHeap = IndexedHeap()
        self.closed: i64 = 0  # the pass in which nobody here is to be offered anything more
        self.ripeness: Ripeness | None = None  # kept once somebody asked for it
        self.offered_tier: i64 = -2  # the offer and the timers as last recorded,
        self.offered_job: i64 = -1  # and to which job, where jobs have delays of their own
        self.offered_timers_s: vec[float] = vec[float]()

    def job(self, slot: i64) -> Job:
        """The job of that slot, which waits."""
        found = self.jobs[slot]
        assert found is not None
        return found


picklable(DemandClass, 1, 1, 0, 0)


class Queue:
    """Waiting jobs by rank: (key, tie, order of submission), lowest first.

    Those that an operator put first in line rank under a key of minus infinity.
    """

    __slots__ = (
        "_by_demand", "_hidden", "_made", "_pass", "_recorded", "_reranked", "_size", "_taken", "classes", "shown",
    )  # fmt: skip

    def __init__(self) -> None:
        self.classes: list[DemandClass] = []  # by rising demand, but for those that are hidden
        self._hidden: list[DemandClass] = []  # likewise: jobs that may not start whoever else does
        self.shown: float = INFINITY  # the most GPUs of a job that is not hidden
        self._by_demand: dict[int, DemandClass] = {}
        self._made: list[DemandClass] = []  # the same classes in the order in which they were made
        self._size: i64 = 0
        self._pass: i64 = 1
        self._taken: list[Job] = []
        self._recorded: dict[int, tuple[float, float]] = {}  # ranks as last recorded, of jobs whose ranks move
        self._reranked: list[Job] = []  # whose ranks have moved far since

    def __len__(self) -> int:
        return int(self._size)

    def __iter__(self) -> Iterator[Job]:
        """All waiting jobs in order of rank. Costs a sort: fine for a first policy, not for a fast one."""
        rows: list[tuple[float, float, int, Job]] = []
        for group in self.classes:
            for slot in group.heap.items:
                job = group.job(slot)
                rows.append((group.heap.key(slot), group.heap.tie(slot), int(job.index), job))
        rows.sort(key=lambda row: row[:3])
        return iter([row[3] for row in rows])

    def class_of(self, job: Job) -> DemandClass:
        """The class of jobs that ask for the same, made when it is first asked for."""
        if job.slot >= 0:
            return self._made[job.slot_class]
        key = demand(job)
        found = self._by_demand.get(key)
        if found is None:
            found = DemandClass(job.gpus, job.group, key, len(self._made))
            self._by_demand[key] = found
            self._made.append(found)
            classes = self.classes if float(job.gpus) <= self.shown else self._hidden
            place = 0
            while place < len(classes) and classes[place].gpus <= job.gpus:
                place += 1
            classes.insert(place, found)
        return found

    def show(self, most_gpus: float) -> None:
        """Hide jobs that ask for more than that from whoever looks for one to start."""
        if most_gpus == self.shown:
            return
        self.shown = most_gpus
        everybody = self.classes + self._hidden
        self.classes = [group for group in everybody if float(group.gpus) <= most_gpus]
        self._hidden = everybody[len(self.classes) :]

    def shows(self, job: Job) -> bool:
        """Whether the job waits here and is not hidden."""
        return float(job.gpus) <= self.shown and self.holds(job)

    def add(self, job: Job, key: float, tie: float) -> None:
        group = self.class_of(job)
        if job.slot < 0:
            if job.kind < 0 or job.kind >= MOST_KINDS:
                raise PolicyError(f"{job!r}: kind {int(job.kind)}: must be from 0 to {MOST_KINDS - 1}")
            job.slot_class = group.number
            job.slot = len(group.jobs)
            group.jobs.append(job)
        if job.prioritized and key > -INFINITY:  # it comes before all others, and among such by its key
            key, tie = -INFINITY, key
        group.heap.put(job.slot, key, tie)
        if group.ripeness is not None:
            group.ripeness.put(job, key, tie)
        if self._recorded:
            self._recorded.pop(int(job.index), None)
        self._size += 1

    def remove(self, job: Job) -> None:
        """Take out a job that got GPUs; one that `take` handed out is out already."""
        group = self.class_of(job)
        if group.heap.holds(job.slot):
            group.heap.remove(job.slot)
            if group.ripeness is not None:
                group.ripeness.discard(job.slot)
            self._size -= 1

    def holds(self, job: Job) -> bool:
        """Whether the job is in the queue now."""
        return self.class_of(job).heap.holds(job.slot)

    def forget(self, job: Job) -> None:
        """The job is gone for good: keep nothing of it."""
        if job.slot >= 0:
            self.class_of(job).jobs[job.slot] = None
        if self._recorded:
            self._recorded.pop(int(job.index), None)

    def rerank(self, job: Job, key: float, tie: float) -> None:
        """A waiting job's rank has changed."""
        group = self.class_of(job)
        if job.prioritized:
            key, tie = -INFINITY, key
        recorded = self._recorded.get(int(job.index), (group.heap.key(job.slot), group.heap.tie(job.slot)))
        group.heap.put(job.slot, key, tie)
        if group.ripeness is not None:
            group.ripeness.discard(job.slot)
            group.ripeness.put(job, key, tie)
        if _moved(recorded[0], key) or _moved(recorded[1], tie):
            self._recorded[int(job.index)] = (key, tie)
            self._reranked.append(job)

    def reranked(self) -> list[Job]:
        """Waiting jobs whose ranks moved by a tenth or more since they were last named here."""
        if not self._reranked:
            return self._reranked
        found = [job for job in self._reranked if job.status == WAITING]
        self._reranked = []
        return found

    def tie(self, job: Job) -> float:
        """What breaks equal keys where the job waits."""
        return self.class_of(job).heap.tie(job.slot)

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
            if found is not None and (key > best_key or (key == best_key and tie > best_tie)):
                continue
            job = group.job(slot)
            if found is None or key < best_key or tie < best_tie or job.index < found.index:
                found = job
                best_key = key
                best_tie = tie
        return found

    def ripeness_of(self, group: DemandClass) -> Ripeness:
        """Who of a class has waited long enough; kept up to date from the first time it is asked for."""
        found = group.ripeness
        if found is None:
            found = Ripeness(group.jobs)
            for slot in group.heap.items:
                found.put(group.job(slot), group.heap.key(slot), group.heap.tie(slot))
            group.ripeness = found
        return found

    def jobs(self) -> list[Job]:
        """All waiting jobs in no particular order."""
        found: list[Job] = []
        for group in self.classes:
            for slot in group.heap.items:
                found.append(group.job(slot))
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


picklable(Queue)


def _moved(recorded: float, value: float) -> bool:
    """Whether a value is a tenth or more off what was recorded."""
    return value != recorded and not abs(value - recorded) < 0.1 * abs(recorded)
