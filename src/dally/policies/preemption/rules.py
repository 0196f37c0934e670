"""When running jobs may lose their GPUs: at every event, when a lease ends, or in rounds."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.heap import IndexedHeap
from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.base import Param
from dally.policies.ordering.base import Order
from dally.policies.preemption.base import Preemption


def next_round_s(now: float, every_s: float, first_s: float) -> float:
    """The first round after now. Rounds count from the first submission: a shifted trace has shifted rounds."""
    since_s = now - first_s
    round_s = first_s + (since_s // every_s + 1.0) * every_s
    while round_s <= now:  # the division may have been rounded
        round_s += every_s
    return round_s


@mypyc_attr(allow_interpreted_subclasses=True)
class EventPreemption(Preemption):
    """Any running job may lose its GPUs whenever a better-ranked one needs them.

    The heap holds each job's key as last seen. Keys of running jobs only fall, and `reranked` reports those
    that rose, so the heap has upper bounds: once the top is up to date and still the top, it is the
    worst-ranked job. This keeps the cost of an event far below the number of running jobs.
    """

    def __init__(self) -> None:
        self._tenant: i64 = 0  # whose jobs are weighed
        self._jobs: list[dict[int, Job]] = [{}]  # by tenant and number
        self._heaps: list[IndexedHeap] = [IndexedHeap(largest_first=True)]

    def _heap(self, tenant: i64) -> IndexedHeap:
        while len(self._heaps) <= tenant:
            self._heaps.append(IndexedHeap(largest_first=True))
            self._jobs.append({})
        return self._heaps[tenant]

    def begin_pass(self, order: Order, now: float, tenant: i64 = 0) -> None:
        self._tenant = tenant

    def worst(self, order: Order, now: float) -> Job | None:
        heap = self._heap(self._tenant)
        while True:
            item = heap.first()
            if item < 0:
                return None
            job = self._jobs[self._tenant][int(item)]
            key = order.key(job, now)
            if key == heap.key(item):
                return job
            heap.put(item, key, order.tie(job))

    def reranked(self, job: Job, order: Order, now: float) -> None:
        self._heap(job.tenant).put(job.number, order.key(job, now), order.tie(job))

    def set_aside(self, job: Job) -> None:
        self._heap(job.tenant).remove(job.number)

    def keep(self, job: Job, order: Order, now: float) -> None:
        self._heap(job.tenant).put(job.number, order.key(job, now), order.tie(job))

    def started(self, job: Job, order: Order, now: float) -> None:
        self._heap(job.tenant).put(job.number, order.key(job, now), order.tie(job))
        self._jobs[job.tenant][int(job.number)] = job

    def stopped(self, job: Job) -> None:
        del self._jobs[job.tenant][int(job.number)]
        self._heap(job.tenant).discard(job.number)


LEASE: Final = Param("lease_s", 3600.0, "seconds for which GPUs are granted", 1e-3, period=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class LeasePreemption(Preemption):
    """GPUs are granted for `lease_s`; when that is over, better-ranked jobs may take them."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self._ended_of: list[list[Job]] = [[]]  # leases that ended at this instant, by tenant
        self._ended: list[Job] = self._ended_of[0]  # those of the tenant that the pass is for, worst rank last

    def _of(self, tenant: i64) -> list[Job]:
        while len(self._ended_of) <= tenant:
            self._ended_of.append([])
        return self._ended_of[tenant]

    def lease_ended(self, job: Job) -> None:
        self._of(job.tenant).append(job)

    def begin_pass(self, order: Order, now: float, tenant: i64 = 0) -> None:
        self._ended = self._of(tenant)
        if len(self._ended) > 1:
            rows = [(order.key(job, now), order.tie(job), int(job.index), job) for job in self._ended]
            rows.sort(key=lambda row: row[:3])
            self._ended[:] = [row[3] for row in rows]

    def worst(self, order: Order, now: float) -> Job | None:
        return self._ended[-1] if self._ended else None

    def set_aside(self, job: Job) -> None:
        self._ended.pop()

    def keep(self, job: Job, order: Order, now: float) -> None:
        self._ended.append(job)

    def stopped(self, job: Job) -> None:
        ended = self._of(job.tenant)
        for place in range(len(ended) - 1, -1, -1):
            if ended[place] is job:
                del ended[place]
                break

    def end_pass(self) -> None:
        self._ended.clear()


class Slice:
    """A running job, and when its restart was over."""

    __slots__ = ("job", "works_from_s")

    def __init__(self, job: Job, works_from_s: float) -> None:
        self.job: Job = job
        self.works_from_s: float = works_from_s


picklable(Slice, Job(0, "", 0.0, 1, 0.0), 0.0)


@mypyc_attr(allow_interpreted_subclasses=True)
class SlicePreemption(Preemption):
    """Every `slice_s` seconds, jobs that have worked for a slice may lose their GPUs to waiting jobs."""

    def __init__(self, slice_s: float) -> None:
        self._slice_s: float = slice_s
        self._running: dict[int, dict[int, Slice]] = {}  # by tenant and index
        self._tenant: i64 = 0  # whose jobs are weighed
        self._first_s: float = INFINITY  # the first submission, from which rounds count
        self._round_s: float = INFINITY  # when the next round is due, while somebody waits
        self._ranked: list[Job] | None = None  # who may be preempted in this pass, worst last; None: not asked yet

    def begin_pass(self, order: Order, now: float, tenant: i64 = 0) -> None:
        self._tenant = tenant
        self._ranked = None

    def worst(self, order: Order, now: float) -> Job | None:
        if now < self._round_s:
            return None
        if self._ranked is None:
            self._ranked = self._rank(order, now)
        return self._ranked[-1] if self._ranked else None

    def set_aside(self, job: Job) -> None:
        if self._ranked is not None:
            self._ranked.pop()

    def keep(self, job: Job, order: Order, now: float) -> None:
        if self._ranked is not None:
            self._ranked.append(job)

    def _rank(self, order: Order, now: float) -> list[Job]:
        """Jobs that have worked for a slice, the worst-ranked last."""
        here: list[Job] = []
        for phase in self._running.get(int(self._tenant), {}).values():
            if phase.works_from_s + self._slice_s <= now:
                here.append(phase.job)
        places = list(range(len(here)))
        # Sorting keeps the order of equals: what counts most comes last. Made at every round, so it must be quick.
        places.sort(key=[int(job.index) for job in here].__getitem__)
        places.sort(key=[order.tie(job) for job in here].__getitem__)
        places.sort(key=[order.key(job, now) for job in here].__getitem__)
        return [here[place] for place in places]

    def wakeup_s(self, now: float, waiting: bool) -> float:
        if not waiting or not self._running:
            self._round_s = INFINITY  # with nobody to preempt, who waits fits nowhere: no round would help
        elif now >= self._round_s or self._round_s == INFINITY:
            self._round_s = next_round_s(now, self._slice_s, self._first_s)
        return self._round_s

    def queued(self, job: Job, now: float) -> None:
        if self._first_s == INFINITY:
            self._first_s = now

    def started(self, job: Job, order: Order, now: float) -> None:
        self._running.setdefault(int(job.tenant), {})[int(job.index)] = Slice(job, job.since_s)

    def stopped(self, job: Job) -> None:
        own = self._running[int(job.tenant)]
        del own[int(job.index)]
        if not own:
            del self._running[int(job.tenant)]
        if self._ranked is not None:
            for place in range(len(self._ranked) - 1, -1, -1):
                if self._ranked[place] is job:
                    del self._ranked[place]
                    break
