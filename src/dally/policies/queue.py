"""The queue of waiting jobs, grouped by demand so that a pass looks at one job per demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.errors import PolicyError
from dally.heap import IndexedHeap
from dally.model import INFINITY, WAITING, Job
from dally.pickles import picklable
from dally.policies.ripeness import Ripeness

MOST_KINDS: Final = 1048576  # a policy tells apart among jobs of one size: 20 bits of a demand


TENANT: Final = 1152921504606846976  # above all demands of one tenant
SIGNATURE: Final = TENANT * TENANT  # above all of one signature, whichever tenant's


def demand(job: Job) -> int:
    """What the job asks for as one number: its GPUs, how they are grouped, its kind, and its constraints."""
    result = int(job.gpus * 68719476736 + job.group * MOST_KINDS + job.kind)  # groups share a machine: below 2^16
    return result if job.signature == 0 else result + int(job.signature) * SIGNATURE


class DemandClass:
    """Waiting jobs that ask for the same, best-ranked first.

    A job's slot, its place in order of first arrival, stays its own when it comes back.
    """

    __slots__ = (
        "closed", "demand", "gpus", "group", "heap", "jobs", "number", "offered_job", "offered_tier",
        "offered_timers_s", "ripeness", "signature", "tenant",
    )  # fmt: skip

    def __init__(
        self, gpus: i64, group: i64, demand: int, number: i64, tenant: i64 = 0, signature: i64 = 0
    ) -> None:
        self.gpus: i64 = gpus
        self.group: i64 = group  # GPUs that must share a machine
        self.demand: int = demand  # as `demand` puts it
        self.number: i64 = number  # of the queue's classes, in the order in which they were made
        self.tenant: i64 = tenant  # whose jobs they are
        self.signature: i64 = signature  # what else they need (cluster/feasibility)
        self.jobs: list[Job | None] = []  # by slot; None once a job is gone for good
        self.heap: IndexedHeap = IndexedHeap()
        self.closed: i64 = 0  # the pass in which nobody here is to be offered anything more
        self.ripeness: Ripeness | None = None  # kept once somebody asked for it
        self.offered_tier: i64 = -2  # the offer and the timers as last recorded,
        self.offered_job: i64 = -1  # and to which job, where jobs have delays of their own
        self.offered_timers_s: vec[float] = vec[float]()

    def job(self, slot: i64) -> Job:
        """The job of that slot, which waits."""
        job = self.jobs[slot]
        assert job is not None
        return job


picklable(DemandClass, 1, 1, 0, 0)


class Queue:
    """Waiting jobs by rank: (key, tie, order of submission), lowest first.

    Those that an operator put first rank under a key of minus infinity. Where tenants share the machines, a
    gate opens it for one of them at a time (policies/gate): the others' jobs wait in it, and nobody sees them.
    """

    __slots__ = (
        "_all", "_by_demand", "_made", "_of", "_pass", "_recorded", "_reranked", "_size", "_taken", "classes",
        "cluster", "shown", "tenant", "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self._all: list[DemandClass] = []  # by rising GPUs
        self._of: list[list[DemandClass]] = [[]]  # the same by tenant
        self.classes: list[DemandClass] = self._all  # those of them that may start now
        self.tenant: i64 = 0  # whose they are, where it is open for one
        self.shown: float = INFINITY  # the most GPUs of a job that is not hidden
        self.waiting: list[int] = [0]  # jobs, by tenant
        self._by_demand: dict[int, DemandClass] = {}
        self._made: list[DemandClass] = []  # the same classes in the order in which they were made
        self._size: i64 = 0
        self._pass: i64 = 1
        self._taken: list[Job] = []
        self._recorded: dict[int, tuple[float, float]] = {}  # ranks as last recorded, of jobs whose ranks move
        self.cluster: Cluster | None = None  # whose counts are those of the job handed out last, by its constraints
        self._reranked: list[Job] = []  # whose ranks have moved far since

    def __len__(self) -> int:
        return int(self._size)

    def __iter__(self) -> Iterator[Job]:
        """All waiting jobs that it is open for by rank. A sort: fine for a first policy, not for a fast one."""
        for job in _in_order(self.classes):
            self._focus(job)
            yield job

    def _focus(self, job: Job | None) -> None:
        cluster = self.cluster
        if cluster is not None and cluster.feasibility is not None:
            cluster.focus(job)

    def all_jobs(self) -> list[Job]:
        """The same of all tenants, whoever it is open for."""
        return _in_order(self._all)

    def class_of(self, job: Job) -> DemandClass:
        """The class of jobs that ask for the same, made when it is first asked for."""
        if job.slot >= 0:
            return self._made[job.slot_class]
        own_demand = demand(job)
        key = own_demand + int(job.tenant) * TENANT if job.tenant > 0 else own_demand
        group = self._by_demand.get(key)
        if group is None:
            group = DemandClass(job.gpus, job.group, own_demand, len(self._made), job.tenant, job.signature)
            self._by_demand[key] = group
            self._made.append(group)
            own = self._own(job.tenant)
            apart = self.classes is not self._all and self.classes is not own
            _insert(self._all, group)
            _insert(own, group)
            if apart and job.tenant == self.tenant and float(job.gpus) <= self.shown:
                _insert(self.classes, group)
        return group

    def _own(self, tenant: i64) -> list[DemandClass]:
        while len(self._of) <= tenant:
            self._of.append([])
            self.waiting.append(0)
        return self._of[tenant]

    def open(self, tenant: i64, most_gpus: float = INFINITY) -> None:
        """Hide all jobs but one tenant's, and of these those that ask for more than that."""
        own = self._own(tenant)
        self.tenant = tenant
        self.shown = most_gpus
        if len(own) == 0 or float(own[len(own) - 1].gpus) <= most_gpus:
            self.classes = own
        else:
            self.classes = [group for group in own if float(group.gpus) <= most_gpus]

    def open_all(self) -> None:
        """Show everybody's again, and offer what was closed: what follows is another pass."""
        self.classes = self._all
        self.shown = INFINITY
        self._pass += 1

    def least_gpus(self, tenant: i64) -> float:
        """The fewest GPUs that a waiting job of the tenant asks for; infinity: nobody waits."""
        for group in self._own(tenant):
            if len(group.heap) > 0:
                return float(group.gpus)
        return INFINITY

    def shows(self, job: Job) -> bool:
        """Whether the job waits here and is not hidden."""
        if self.classes is not self._all and job.tenant != self.tenant:
            return False
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
        self.waiting[group.tenant] += 1

    def remove(self, job: Job) -> None:
        """Take out a job that got GPUs; one that `take` handed out is out already."""
        group = self.class_of(job)
        if group.heap.holds(job.slot):
            group.heap.remove(job.slot)
            if group.ripeness is not None:
                group.ripeness.discard(job.slot)
            self._size -= 1
            self.waiting[group.tenant] -= 1

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
        jobs = [job for job in self._reranked if job.status == WAITING]
        self._reranked = []
        return jobs

    def tie(self, job: Job) -> float:
        """What breaks equal keys where the job waits."""
        return self.class_of(job).heap.tie(job.slot)

    def key(self, job: Job) -> float:
        """The key under which the job waits."""
        return self.class_of(job).heap.key(job.slot)

    def best(self, most_gpus: float = INFINITY) -> Job | None:
        """The best-ranked job that asks for at most that many GPUs, of the classes not closed."""
        job = self._best(self.classes, most_gpus)
        self._focus(job)
        return job

    def best_of(self, tenant: i64, most_gpus: float = INFINITY) -> Job | None:
        """The same of one tenant's, whoever it is open for."""
        return self._best(self._own(tenant), most_gpus)

    def _best(self, classes: list[DemandClass], most_gpus: float) -> Job | None:
        best: Job | None = None
        best_key = 0.0
        best_tie = 0.0
        for group in classes:
            if float(group.gpus) > most_gpus:
                break
            slot = group.heap.first()
            if slot < 0 or self.is_closed(group):
                continue
            key = group.heap.key(slot)
            tie = group.heap.tie(slot)
            if best is not None and (key > best_key or (key == best_key and tie > best_tie)):
                continue
            job = group.job(slot)
            if best is None or key < best_key or tie < best_tie or job.index < best.index:
                best = job
                best_key = key
                best_tie = tie
        return best

    def ripeness_of(self, group: DemandClass) -> Ripeness:
        """Who of a class has waited long enough; kept up to date from the first time it is asked for."""
        ripeness = group.ripeness
        if ripeness is None:
            ripeness = Ripeness(group.jobs)
            for slot in group.heap.items:
                ripeness.put(group.job(slot), group.heap.key(slot), group.heap.tie(slot))
            group.ripeness = ripeness
        return ripeness

    def jobs(self) -> list[Job]:
        """All waiting jobs that it is open for, in no particular order."""
        jobs: list[Job] = []
        for group in self.classes:
            for slot in group.heap.items:
                jobs.append(group.job(slot))
        return jobs

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


def _in_order(classes: list[DemandClass]) -> list[Job]:
    rows: list[tuple[float, float, int, Job]] = []
    for group in classes:
        for slot in group.heap.items:
            job = group.job(slot)
            rows.append((group.heap.key(slot), group.heap.tie(slot), int(job.index), job))
    rows.sort(key=lambda row: row[:3])
    return [row[3] for row in rows]


def _insert(classes: list[DemandClass], group: DemandClass) -> None:
    place = 0
    while place < len(classes) and classes[place].gpus <= group.gpus:
        place += 1
    classes.insert(place, group)


def _moved(recorded: float, value: float) -> bool:
    """Whether a value is a tenth or more off what was recorded."""
    return value != recorded and not abs(value - recorded) < 0.1 * abs(recorded)
