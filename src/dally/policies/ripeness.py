"""Which of the waiting jobs that ask for the same has waited long enough, best rank first."""

from __future__ import annotations

from mypy_extensions import i64

from dally.heap import IndexedHeap
from dally.model import INFINITY, Job
from dally.pickles import picklable


class Ripeness:
    """Those who wait, by rank and by age.

    Jobs that never ran must be ranked by how long they wait, so that if the first is not patient enough
    nobody is. Those that ran before, or that an operator put first, may have any rank, and are also kept by age.
    Whose patience an operator set is apart from both.
    """

    __slots__ = ("_apart", "_by_age", "_fresh", "_jobs", "_stopped")

    def __init__(self, jobs: list[Job | None]) -> None:
        self._jobs: list[Job | None] = jobs  # by slot, shared with the class of demand
        self._fresh: IndexedHeap = IndexedHeap()
        self._stopped: IndexedHeap = IndexedHeap()
        self._by_age: IndexedHeap = IndexedHeap()
        self._apart: IndexedHeap = IndexedHeap()

    def put(self, job: Job, key: float, tie: float) -> None:
        """The job waits under that rank."""
        if job.delay_until_s >= 0.0:
            self._apart.put(job.slot, key, tie)
        elif job.start_s < 0.0 and not job.prioritized:
            self._fresh.put(job.slot, key, tie)
        else:
            self._stopped.put(job.slot, key, tie)
            self._by_age.put(job.slot, job.lost_s, 0.0)

    def discard(self, slot: i64) -> None:
        """The job in that slot waits no more."""
        self._fresh.discard(slot)
        self._stopped.discard(slot)
        self._by_age.discard(slot)
        self._apart.discard(slot)

    def first(self, patience_s: float, now: float) -> Job | None:
        """The best-ranked job that has waited that long, or as long as an operator said."""
        first = self._first_by_timers(patience_s, now)
        if len(self._apart) == 0:
            return first
        slot = -1 if first is None else first.slot
        for other in self._apart.items:
            if patience_s > 0.0 and self._job(other).delay_until_s > now:
                continue
            if slot < 0 or self._comes_first(other, slot):
                slot = other
        return self._job(slot) if slot >= 0 else None

    def next_apart_s(self, now: float) -> float:
        """When the next of those whose patience an operator set takes any place; infinity: none will."""
        soonest = INFINITY
        for slot in self._apart.items:
            until_s = self._job(slot).delay_until_s
            if now < until_s < soonest:
                soonest = until_s
        return soonest

    def _first_by_timers(self, patience_s: float, now: float) -> Job | None:
        slot = self._fresh.first()
        if slot >= 0 and self._job(slot).lost_s + patience_s > now:
            slot = -1
        other = self._first_stopped(patience_s, now)
        if other < 0 or (slot >= 0 and not self._comes_first(other, slot)):
            return self._job(slot) if slot >= 0 else None
        return self._job(other)

    def _job(self, slot: i64) -> Job:
        job = self._jobs[slot]
        assert job is not None  # it waits
        return job

    def oldest_s(self) -> float:
        """When the one who waits longest began to; infinity when nobody waits."""
        oldest = INFINITY
        if len(self._fresh) > 0:
            oldest = self._job(self._fresh.first()).lost_s
        if len(self._by_age) > 0:
            oldest = min(oldest, self._job(self._by_age.first()).lost_s)
        return oldest

    def _comes_first(self, slot: i64, other: i64) -> bool:
        """Whether the one is ranked ahead of the other."""
        heap, beside = self._heap(slot), self._heap(other)
        key, other_key = heap.key(slot), beside.key(other)
        if key != other_key:
            return key < other_key
        tie, other_tie = heap.tie(slot), beside.tie(other)
        if tie != other_tie:
            return tie < other_tie
        return self._job(slot).index < self._job(other).index

    def _heap(self, slot: i64) -> IndexedHeap:
        """Where the job in that slot is kept by rank."""
        if self._fresh.holds(slot):
            return self._fresh
        return self._stopped if self._stopped.holds(slot) else self._apart

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
