"""EASY backfilling: later jobs may go first, but never delay the head of the queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import CANCELLED, INFINITY, Action, Allocation, Job, Start
from dally.pickles import picklable
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.consolidating import gpus_in
from dally.policies.declaration import BEST_FIT, DURATIONS, NamedPolicy
from dally.policies.events import PolicyEvent
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import BestFit
from dally.policies.placement.closest_tier import TIER, at_tier
from dally.policies.prediction.base import Oracle, Predictor
from dally.policies.prediction.guesses import Guesses
from dally.policies.prediction.named import PREDICTOR, make_predictor
from dally.policies.queue import DemandClass, Queue, demand
from dally.policies.settings import Settings
from dally.policies.victims import Weighing
from dally.policies.view import View


class Reservation:
    """Room for one gang in one domain of a tier; none yet as long as the domain is -1."""

    __slots__ = ("at_s", "domain", "guarded", "spare", "tier", "whole")

    def __init__(self, tier: i64, cluster: Cluster) -> None:
        self.tier: i64 = tier
        self.whole: bool = tier == cluster.root  # the domain is the cluster
        self.domain: i64 = -1
        self.at_s: float = INFINITY
        self.spare: i64 = 0  # GPUs of the domain that will be left then
        self.guarded: dict[int, bool] = {}  # demands that would take more than that, where they were placed

    def leaves(self, group: DemandClass) -> bool:
        """Whether jobs that ask for so much may outlast it; told for sure only when one is placed."""
        return group.demand not in self.guarded and (group.gpus <= self.spare or not self.whole)


def emptied_into(job: Job, cluster: Cluster, tier: i64, room: vec[i64], gpus: i64) -> i64:
    """Add a running job's GPUs to its domains' room; the first of these that then has that many, or -1."""
    allocation = job.allocation
    assert allocation is not None
    first: i64 = -1
    for part in range(len(allocation.machines)):
        domain = cluster.topology.domain_of(tier, allocation.machines[part])
        room[domain] += allocation.gpus[part]
        if first < 0 and room[domain] >= gpus:
            first = domain
    return first


class LengthTree:
    """Lengths of waiting jobs by slot; finds the first slot whose length is at most a limit.

    A binary tree of minima, doubled when full.
    """

    def __init__(self) -> None:
        self._leaves: i64 = 1
        self._least: vec[float] = vec[float]([INFINITY, INFINITY])

    def set(self, slot: i64, length_s: float) -> None:
        while slot >= self._leaves:
            self._double()
        place = self._leaves + slot
        self._least[place] = length_s
        while place > 1:
            place >>= 1
            self._least[place] = min(self._least[2 * place], self._least[2 * place + 1])

    def first_at_most(self, limit_s: float) -> i64:
        """The first slot with a length of at most `limit_s`, or -1."""
        if self._least[1] > limit_s:
            return -1
        place: i64 = 1
        while place < self._leaves:
            place *= 2
            if self._least[place] > limit_s:
                place += 1
        return place - self._leaves

    def _double(self) -> None:
        old = self._leaves
        leaves = [self._least[int(old) + i] for i in range(int(old))]
        self._leaves = 2 * old
        least = vec[float]()
        for _ in range(4 * old):
            least = append(least, INFINITY)
        self._least = least
        for slot, length_s in enumerate(leaves):
            if length_s < INFINITY:
                self.set(slot, length_s)


picklable(LengthTree)


@mypyc_attr(allow_interpreted_subclasses=True)
class EasyBackfill(Policy):
    """First come, first served; the first job that does not fit gets a reservation.

    Later jobs start only if they do not delay that reservation: they end before it, or use GPUs that the head
    will not need. The reservation is for the domain that will first have room for the head, at the farthest
    tier that the head would accept, so that gangs held at their closest tier do not starve behind smaller ones.
    A predictor estimates when jobs end: an oracle in simulation, the time limit on a live cluster, or the past.
    There is no reservation if a job without a prediction would have to end first.
    """

    def __init__(self, placement: Placement, predictor: Predictor | None = None) -> None:
        self.placement = placement
        self.predictor = predictor if predictor is not None else Oracle()
        self._guesses: Guesses = Guesses(self.predictor)
        self._lengths: dict[int, LengthTree] = {}  # by number of the class of demand
        self._ends: IndexedHeap = IndexedHeap()  # running jobs by expected end
        self._running: dict[int, Job] = {}
        self._waiting: bool = False  # whether somebody was left waiting by the latest pass

    def begin(self, view: View) -> None:
        super().begin(view)
        self.placement.begin(view)

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is not None:
            self._on_job(event.kind, job, event.now)
        elif event.kind == events.PASS_ENDED:
            # A job that outlasts its prediction moves the reservation, and with it who may start before that.
            idle = self._guesses.exact or not self._waiting or len(self._ends) == 0
            self.wakeup_s = INFINITY if idle else self._ends.key(self._ends.first())

    def _on_job(self, kind: i64, job: Job, now: float) -> None:
        if kind == events.RERATED:
            self._ends.put(job.index, self._guesses.end_s(job), 0.0)
        elif kind == events.QUEUED:
            tree = self._lengths.setdefault(int(job.slot_class), LengthTree())
            tree.set(job.slot, self._length_s(job))
        elif kind == events.STARTED:
            self._lengths[int(job.slot_class)].set(job.slot, INFINITY)
            self._running[int(job.index)] = job
            self._ends.put(job.index, self._guesses.end_s(job), 0.0)
        elif kind == events.STOPPED:
            if not self._guesses.exact and self._ends.key(job.index) <= now:
                self._guesses.double(job, now)
            self._ends.remove(job.index)
            del self._running[int(job.index)]
        elif kind == events.FINISHED:
            self._guesses.finished(job, now)
        elif kind == events.WITHDRAWN:
            if job.slot >= 0:  # else it was put on hold as it came, or as it lost its GPUs
                self._lengths[int(job.slot_class)].set(job.slot, INFINITY)
            if job.status == CANCELLED:
                self._guesses.forget(job)
        elif kind == events.PREEMPTION_FAILED:
            self._on_job(events.STOPPED, job, now)
            self._on_job(events.STARTED, job, now)

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        self._waiting = len(queue) > 0
        if not self._waiting:
            return []
        if not self._guesses.exact:
            self._revise(now)
        return self._offer(now, queue, cluster)

    def _offer(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        while True:
            head = queue.best()
            if head is None:
                self.reasons.reserved(None, INFINITY)
                self._waiting = len(queue) > 0
                return
            allocation = self.placement.place(head, now, cluster)
            if allocation is None:
                break
            yield Start(head, allocation)
        reservation = self._reserve(head, cluster)
        self.reasons.reserved(head, reservation.at_s)
        while True:
            job = self._candidate(queue, head, cluster.all_free(), reservation, now)
            if job is None:
                return
            allocation = self.placement.place(job, now, cluster)
            if allocation is None:
                queue.close(job)
                continue
            if now + self._length_s(job) > reservation.at_s:
                taken = self._taken(job, allocation, reservation, head, cluster)
                if taken > reservation.spare:
                    if demand(job) in reservation.guarded:
                        queue.close(job)  # short enough by one sum, too long by the other: a float's last bit
                    reservation.guarded[demand(job)] = True
                    continue
                reservation.spare -= taken
            yield Start(job, allocation)

    def _taken(
        self, job: Job, allocation: Allocation, reservation: Reservation, head: Job, cluster: Cluster
    ) -> i64:
        """GPUs of the reserved domain that the job would have; where jobs have constraints, those of the head."""
        if cluster.feasibility is None:
            return gpus_in(cluster.topology, allocation, reservation.tier, reservation.domain)
        gpus: i64 = 0
        for part in range(len(allocation.machines)):
            machine = allocation.machines[part]
            if cluster.topology.domain_of(reservation.tier, machine) == reservation.domain:
                gpus += cluster.most_on(head, machine)  # what else it takes there may be missing too
        return gpus

    def _revise(self, now: float) -> None:
        """Running jobs that were to have ended will take longer."""
        while len(self._ends) > 0 and self._ends.key(self._ends.first()) <= now:
            job = self._running[int(self._ends.first())]
            self._guesses.double(job, now)
            self._ends.put(job.index, self._guesses.end_s(job), 0.0)

    def _reserve(self, head: Job, cluster: Cluster) -> Reservation:
        """For the domain that will first have enough GPUs for the head."""
        reservation = Reservation(max(0, self.placement.widest(head, cluster)), cluster)
        if cluster.feasibility is not None:
            return self._reserve_tried(head, reservation, cluster)
        room = vec[i64]([0] * len(cluster.free[reservation.tier]))
        for domain in range(len(room)):
            room[domain] = cluster.free[reservation.tier][domain]
            if room[domain] >= head.gpus:
                return reservation  # enough, but not in groups: nobody knows for when to reserve
        popped: list[Job] = []
        while len(self._ends) > 0:
            if reservation.domain >= 0 and self._ends.key(self._ends.first()) > reservation.at_s:
                break  # what else ends at the very moment of the reservation leaves GPUs for the spare too
            job = self._running[int(self._ends.pop())]
            popped.append(job)
            domain = emptied_into(job, cluster, reservation.tier, room, head.gpus)
            if reservation.domain < 0 and domain >= 0:
                reservation.domain = domain
                reservation.at_s = self._ends.key(job.index)
        for job in popped:
            self._ends.put(job.index, self._ends.key(job.index), 0.0)
        if reservation.domain >= 0:
            reservation.spare = room[reservation.domain] - head.gpus
        return reservation

    def _reserve_tried(self, head: Job, reservation: Reservation, cluster: Cluster) -> Reservation:
        """The same where jobs have constraints: running jobs end, as if, until the head has a place."""
        rows = [(self._ends.key(job.index), int(job.index)) for job in self._running.values()]
        rows.sort()
        weighing = Weighing(head, reservation.tier, cluster)
        for end_s, index in rows:
            if weighing.domain >= 0 and end_s > reservation.at_s:
                break
            weighing.add(self._running[index])
            if reservation.domain < 0 and weighing.domain >= 0:
                reservation.domain = weighing.domain
                reservation.at_s = end_s
        if reservation.domain >= 0:
            reservation.spare = cluster.free[reservation.tier][reservation.domain] - head.gpus
        weighing.end()
        return reservation

    def _candidate(self, queue: Queue, head: Job, free: i64, reservation: Reservation, now: float) -> Job | None:
        """The first job behind the head that fits now and, as far as can be told yet, leaves its reservation."""
        candidate: Job | None = None
        for group in queue.classes:
            if group.gpus > free:
                break
            if queue.is_closed(group) or not group.jobs:
                continue
            job = self._first(group, head, INFINITY if reservation.leaves(group) else reservation.at_s - now)
            if job is not None and (candidate is None or job.index < candidate.index):
                candidate = job
        return candidate

    def _first(self, group: DemandClass, head: Job, limit_s: float) -> Job | None:
        by_length = self._lengths[int(group.number)]
        slot = group.heap.first() if limit_s == INFINITY else by_length.first_at_most(limit_s)
        if slot < 0 or group.jobs[slot] is head or not group.heap.holds(slot):
            return None  # the head itself: it asks for more than is free, and so does its class; or one set aside
        return group.job(slot)

    def _length_s(self, job: Job) -> float:
        """How long a waiting job will hold its GPUs."""
        guess_s = self._guesses.guess_s(job)
        return job.restart_due_s + guess_s - job.work_s if guess_s >= 0.0 else INFINITY


def _easy(settings: Settings) -> Policy:
    return EasyBackfill(at_tier(BestFit(), settings["tier"]), make_predictor(settings["predictor"]))


PAPER: Final = "Feitelson & Weil, Utilization and Predictability in Scheduling the IBM SP2, IPPS 1998"
EASY: Final = NamedPolicy(
    "easy-backfill", _easy, "submit time, head reserved", BEST_FIT, "never", DURATIONS, PAPER, (PREDICTOR, TIER)
)
