"""Rounds in which every job's size is chosen anew, and gangs are placed by size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, RUNNING, Action, Allocation, Job, Preempt, Resize, Start
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.consolidating import emptied, needed
from dally.policies.events import PolicyEvent
from dally.policies.goodput.knapsack import SizeOptions, cheapest_sizes
from dally.policies.placement.best_fit import best_fit
from dally.policies.placement.smaller_allocation import part_of
from dally.policies.queue import Queue, demand


@mypyc_attr(allow_interpreted_subclasses=True)
class GoodputRounds(Policy):
    """What Pollux and Sia have in common; each says in `cost` what a size costs.

    Goodput is throughput times statistical efficiency. At a fixed global batch the efficiency stays as it is,
    so that goodput is the speed at a size. A round chooses sizes for all jobs; rigid jobs have one. Jobs that
    lose GPUs stop or shrink first. Then the others are placed, largest first, each at the closest tier of its
    size (tier=any: at any tier, as the authors' clusters have it), and smaller gangs of the round make way and
    are placed again.
    """

    def __init__(self, round_s: float, scatters: bool, elastic: bool) -> None:
        self._round_s: float = round_s
        self._scatters: bool = scatters
        self._elastic: bool = elastic
        self._next_s: float = -INFINITY
        self._began_s: float = -INFINITY
        self._had_it: dict[int, bool] = {}  # tenants that had this round (policies/gate)
        self._running: dict[int, Job] = {}
        self._present: dict[int, bool] = {}

    # What a size costs.

    def costs(self, job: Job, sizes: list[int], jobs: i64, gpus: i64, now: float) -> SizeOptions:
        """The options of a job: these sizes, which rise, and going without where that may be."""
        raise NotImplementedError

    def goodput(self, job: Job, size: i64) -> float:
        """Its speed on so many GPUs at its closest place, against that on those it asks for."""
        view = self.view
        return view.speedup(job, size) * view.best_at(job, job.requested) / view.best_at(job, size)

    def restart_factor(self, job: Job, size: i64, now: float) -> float:
        """Of a job's time, what it would have worked if it restarted as often from now on; 1 where it goes on."""
        if job.start_s < 0.0 or (job.status == RUNNING and size == job.gpus):
            return 1.0
        age_s = now - job.submit_s
        restart_s = self.view.resize_s(job, size)
        stops = float(job.preemptions + job.resizes + job.migrations)
        return max(0.01, (age_s - stops * restart_s) / (age_s + restart_s)) if age_s > 0.0 else 1.0

    # When.

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is not None:
            self._on_job(event.kind, job, event.now)
        elif event.kind == events.PASS_ENDED:
            self.wakeup_s = self._next_s if self._present else INFINITY

    def _on_job(self, kind: i64, job: Job, now: float) -> None:
        index = int(job.index)
        if kind == events.QUEUED:
            self._present[index] = True
        elif kind == events.STARTED:
            self._running[index] = job
        elif kind == events.STOPPED:
            self._running.pop(index, None)
        elif kind in (events.FINISHED, events.WITHDRAWN):
            self._present.pop(index, None)
        elif kind == events.PREEMPTION_FAILED:
            self._running[index] = job

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        if not self._present:
            return []
        if now >= self._next_s:
            self._next_s = now + self._round_s
            self._began_s = now
            self._had_it.clear()
        elif now > self._began_s or int(queue.tenant) in self._had_it:
            return []
        self._had_it[int(queue.tenant)] = True
        self.reasons.next_round(self._next_s)
        return self._round(now, queue, cluster)

    # A round.

    def _round(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        cluster.focus(None)
        room = cluster.free_gpus
        jobs: list[Job] = []
        for job in list(self._running.values()):
            if job.tenant == queue.tenant and self._may_stop(job, now):
                room += job.gpus
                jobs.append(job)
        jobs.extend(queue.jobs())
        total = cluster.topology.total_gpus()
        options = [self.costs(job, self._sizes_of(job), len(jobs), total, now) for job in jobs]
        for job, offered in zip(jobs, options, strict=True):
            if job.prioritized:
                offered.put_first()
        sizes = cheapest_sizes(options, room)
        growing: list[tuple[int, int, Job]] = []
        for place, job in enumerate(jobs):
            size = sizes[place]
            if job.status == RUNNING and size < job.gpus:
                yield from self._less(job, size)
            elif size > 0 and (job.status != RUNNING or size > job.gpus):
                growing.append((-size, int(job.index), job))
        growing.sort(key=_by_size)
        chosen = {int(job.index): size for job, size in zip(jobs, sizes, strict=True)}
        yield from self._seat(growing, chosen, cluster)
        if not self._running:
            self._next_s = now  # who waits fits nowhere: no round would help, but whatever happens next may

    def _sizes_of(self, job: Job) -> list[int]:
        if not self._elastic or len(job.sizes) == 0:
            return [int(job.requested)]
        return list(job.sizes)

    def _may_stop(self, job: Job, now: float) -> bool:
        """Not while it restarts: a long one would never end; not if it stays."""
        return not job.non_preemptible and job.since_s <= now and job.placed_s < now

    def _less(self, job: Job, size: i64) -> Iterator[Action]:
        held = job.allocation
        assert held is not None
        if size == 0 or job.non_migratable:
            yield Preempt(job)
        else:
            yield Resize(job, part_of(held, size))

    def _seat(
        self, growing: list[tuple[int, int, Job]], chosen: dict[int, int], cluster: Cluster
    ) -> Iterator[Action]:
        """Place those that get more GPUs, largest first; smaller ones of the round make way and come again."""
        place = 0
        waits_first: set[int] = set()  # what jobs ask for that are first in the queue and have no place yet
        while place < len(growing):
            job = growing[place][2]
            place += 1
            size = chosen[int(job.index)]  # 0: it was to stop, did not at first, and made way only now
            if size == 0 or int(job.index) not in self._present or (job.status == RUNNING and job.gpus >= size):
                continue
            if job.status != RUNNING and demand(job) in waits_first:
                continue
            allocation = self._place(job, size, cluster)
            if allocation is None and job.status != RUNNING:
                for smaller in self._in_the_way(job, size, cluster):
                    self.reasons.lost(smaller, job)
                    yield Preempt(smaller)
                    growing.append((-int(smaller.gpus), int(smaller.index), smaller))
                    chosen.setdefault(int(smaller.index), int(smaller.gpus))
                allocation = self._place(job, size, cluster)
            if allocation is not None:
                yield Resize(job, allocation) if job.status == RUNNING else Start(job, allocation)
            elif job.prioritized:
                waits_first.add(demand(job))

    def _place(self, job: Job, size: i64, cluster: Cluster) -> Allocation | None:
        """Free GPUs, or its own and free ones, at the closest tier that they are to be had at."""
        cluster.focus(job)
        near = cluster.closest_tier_of(size, job.group, job.signature)
        last = cluster.root if self._scatters else near
        held = job.allocation if job.status == RUNNING else None
        trial = cluster.trial()
        if held is not None:
            trial.release(held)
        result: Allocation | None = None
        for tier in range(last + 1):
            result = best_fit(cluster, tier, size, job.group)
            if result is not None:
                break
        trial.undo()
        return result

    def _in_the_way(self, job: Job, size: i64, cluster: Cluster) -> list[Job]:
        """Smaller running ones that must go for the job to have a place at its closest tier; nobody if in vain."""
        if cluster.feasibility is not None or job.group > 1:
            return []
        tier = cluster.topology.closest_tier(size, job.group)
        gained = vec[i64]([0] * len(cluster.free[tier]))
        weighed: list[Job] = []
        for other in sorted(self._running.values(), key=_smallest_first):
            if other.gpus >= size or other.tenant != job.tenant or not self._may_stop(other, self._began_s):
                continue
            if other.prioritized:
                continue
            weighed.append(other)
            domain = emptied(other, cluster, tier, gained, size)
            if domain >= 0:
                return needed(weighed, cluster, tier, domain, size)
        return []


def _by_size(row: tuple[int, int, Job]) -> tuple[int, int, int]:
    return 0 if row[2].prioritized else 1, row[0], row[1]


def _smallest_first(job: Job) -> tuple[int, int]:
    return int(job.gpus), -int(job.index)
