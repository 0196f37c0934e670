"""Which of the waiting jobs that ask for the same has waited long enough, best rank first."""

from __future__ import annotations

from mypy_extensions import i64

from dally.heap import IndexedHeap
from dally.model import INFINITY, Job
from dally.pickles import picklable


class Ripeness:
    """Those who wait, by rank and by age.

    Jobs that never ran must be ranked by how long they wait, so that if the first is not patient enough
    nobody is. Those that ran before may have any rank, and are also kept by age.
    """

    __slots__ = ("_by_age", "_fresh", "_jobs", "_stopped")

    def __init__(self, jobs: list[Job | None]) -> None:
        self._jobs: list[Job | None] = jobs  # by slot, shared with the class of demand
        self._fresh: IndexedHeap = IndexedHeap()
        self._stopped: IndexedHeap = IndexedHeap()
        self._by_age: IndexedHeap = IndexedHeap()

    def put(self, job: Job, key: float, tie: float) -> None:
        """The job waits under that rank."""
        if job.start_s < 0.0:
            self._fresh.put(job.slot, key, tie)
        else:
            self._stopped.put(job.slot, key, tie)
            self._by_age.put(job.slot, job.lost_s, 0.0)

    def discard(self, slot: i64) -> None:
        """The job in that slot waits no more."""
        self._fresh.discard(slot)
        self._stopped.discard(slot)
        self._by_age.discard(slot)

    def first(self, patience_s: float, now: float) -> Job | None:
        """The best-ranked job that has waited that long."""
        slot = self._fresh.first()
        if slot >= 0 and self._job(slot).lost_s + patience_s > now:
            slot = -1
        other = self._first_stopped(patience_s, now)
        if other < 0 or (slot >= 0 and not self._comes_first(other, slot)):
            return self._job(slot) if slot >= 0 else None
        return self._job(other)

    def _job(self, slot: i64) -> Job:
        found = self._jobs[slot]
        assert found is not None  # it waits
        return found

    def oldest_s(self) -> float:
        """When the one who waits longest began to; infinity when nobody waits."""
        oldest = INFINITY
        if len(self._fresh) > 0:
            oldest = self._job(self._fresh.first()).lost_s
        if len(self._by_age) > 0:
            oldest = min(oldest, self._job(self._by_age.first()).lost_s)
        return oldest

    def _comes_first(self, stopped: i64, fresh: i64) -> bool:
        key, other_key = self._stopped.key(stopped), self._fresh.key(fresh)
        if key != other_key:
            return key < other_key
        tie, other_tie = self._stopped.tie(stopped), self._fresh.tie(fresh)
        if tie != other_tie:
            return tie < other_tie
        return self._job(stopped).index < self._job(fresh).index

    def _first_stopped(self, patience_s: float, now: float) -> i64:
        """Looks down the heap from the best rank; unripe are only those that lost their GPUs recently."""
        heap = self._stopped
        if len(heap) == 0 or self._job(self._by_age.first()).lost_s + patience_s > now:
            return -1
        frontier = IndexedHeap()
        frontier.put(0, heap.key(heap.first()), heap.tie(heap.first()))
        while True:
            place = frontier.pop()
            slot = heap.items[place]
            if self._job(slot).lost_s + patience_s <= now:
                return slot
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(heap.items):
                    below = heap.items[child]
                    frontier.put(child, heap.key(below), heap.tie(below))


picklable(Ripeness, [])
