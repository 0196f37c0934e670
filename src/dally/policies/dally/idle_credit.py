"""Idle GPUs beside a waiting gang: how many GPU-seconds stood idle while it waited, and what they have paid for."""

from __future__ import annotations

import math
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import INFINITY, NEVER, Job
from dally.pickles import picklable
from dally.policies.dally.limits import Limits
from dally.policies.queue import DemandClass, Queue

EARLY: Final = 1e-9  # relative: powers are rounded


class IdleCredit:
    """By tier, GPU-seconds that were free in the emptiest domain while jobs waited, less what was paid from them.

    A gang's credit is what came in at its closest tier since it began to wait. All gangs draw on one account: one
    idle GPU pays once.
    """

    __slots__ = (
        "_account",
        "_earned_gpu_s",
        "_idle",
        "_newcomers",
        "_opened",
        "_reviews_s",
        "_since_s",
        "_waiting",
        "drained",
    )  # fmt: skip

    def __init__(self) -> None:
        self._account: vec[float] = vec[float]()
        self._idle: vec[float] = vec[float]()  # GPUs, as the latest pass left them
        self._since_s: float = NEVER  # when that was
        self._earned_gpu_s: float = (
            0.0  # what came in, at the tier where most did, while jobs waited without a break
        )
        self._newcomers: list[Job] = []  # that began to wait since then
        self._opened: dict[
            int, IndexedHeap
        ] = {}  # by demand class: its slots by the account when they began to wait
        self._waiting: dict[int, Job] = {}
        self._reviews_s: dict[int, float] = {}  # by job, when it is next worth working out its price
        self.drained: dict[
            int, tuple[Job, float]
        ] = {}  # gangs whose domain was paid for, and until when that lasts

    def waits(self, job: Job) -> None:
        """The job begins to wait, or waits again."""
        self.leaves(job)
        self.forget(job)
        if job.gpus > 1 and job.group == 1:
            self._waiting[int(job.index)] = job
            self._newcomers.append(job)

    def leaves(self, job: Job) -> None:
        """The job waits no more."""
        if self._waiting.pop(int(job.index), None) is None:
            return
        self._reviews_s.pop(int(job.index), None)
        opened = self._opened.get(int(job.slot_class))
        if opened is not None:
            opened.discard(job.slot)

    def any_gang_waits(self) -> bool:
        """Whether a gang waits that idle GPUs may pay for."""
        return len(self._waiting) > 0

    def forget(self, job: Job) -> None:
        """The job runs no more: nothing is kept for it."""
        if self.drained:
            self.drained.pop(int(job.index), None)

    def begin_pass(self, now: float, cluster: Cluster) -> None:
        """Add what stood idle since the latest pass, and open an account for each job that has come since."""
        while len(self._account) <= cluster.root:
            self._account = append(self._account, 0.0)
            self._idle = append(self._idle, 0.0)
        if self._since_s != NEVER:
            for tier in range(cluster.root + 1):
                self._account[tier] += (now - self._since_s) * self._idle[tier]
            self._earned_gpu_s += (now - self._since_s) * self._idle[cluster.root]
        self._since_s = now
        if not self._waiting:
            self._earned_gpu_s = 0.0
        for job in self._newcomers:
            near = cluster.topology.closest_tier(job.gpus, job.group)
            if near >= 0 and job.slot >= 0 and int(job.index) in self._waiting:
                self._opened_for(job.slot_class).put(job.slot, self._account[near], 0.0)
        self._newcomers = []

    def _opened_for(self, number: i64) -> IndexedHeap:
        opened = self._opened.get(int(number))
        if opened is None:
            opened = IndexedHeap()
            self._opened[int(number)] = opened
        return opened

    def end_pass(self, queue: Queue, cluster: Cluster) -> None:
        """What is free now stands idle until the next pass, if jobs wait."""
        idle = queue.waiting[queue.tenant] > 0 and cluster.free_gpus > 0
        for tier in range(cluster.root + 1):
            self._idle[tier] = float(most_free(tier, cluster)) if idle else 0.0

    def least_gpus(self, cluster: Cluster, limits: Limits) -> float:
        """The fewest GPUs of a gang for which what came in since any account was opened pays the shortest stay."""
        least_gpu_s = limits.idle_worth * limits.least_hold_s
        if self._earned_gpu_s <= 0.0:
            return 2.0 if least_gpu_s <= 0.0 else INFINITY
        if limits.idle_power <= 0.0:
            return 2.0 if least_gpu_s <= self._earned_gpu_s else INFINITY
        share = math.pow(least_gpu_s / self._earned_gpu_s, 1.0 / limits.idle_power)
        return max(2.0, share * float(cluster.topology.total_gpus()) * (1.0 - EARLY))

    def most(self, group: DemandClass, near: i64) -> float:
        """The most credit of a job of that class, whose closest tier is given; 0 where none has an account."""
        opened = self._opened.get(int(group.number))
        return self._account[near] - opened.key(opened.first()) if opened is not None and len(opened) > 0 else 0.0

    def claimants(self, group: DemandClass) -> list[Job]:
        """Of the jobs of a class the one with most credit, and the best-ranked; some must have an account."""
        opened = self._opened[int(group.number)]
        jobs = [group.job(opened.first())]
        best = group.heap.first()
        if best >= 0 and best != opened.first() and opened.holds(best):
            jobs.append(group.job(best))
        return jobs

    def of(self, job: Job, near: i64) -> float:
        """The waiting job's credit in GPU-seconds."""
        return self._account[near] - self._opened_for(job.slot_class).key(job.slot)

    def has_account(self, job: Job) -> bool:
        """Whether the job waits and may be paid for."""
        opened = self._opened.get(int(job.slot_class))
        return opened is not None and opened.holds(job.slot)

    def pay(self, price_gpu_s: float) -> None:
        """So much is spent, whichever gang it was for."""
        for tier in range(len(self._account)):
            self._account[tier] -= price_gpu_s

    def is_due(self, job: Job, now: float) -> bool:
        """Whether the price of the job's domain is worth working out, again or for the first time."""
        return now >= self._reviews_s.get(int(job.index), NEVER)

    def look_again(self, job: Job, at_s: float) -> None:
        """The job's credit does not reach its price before then."""
        self._reviews_s[int(job.index)] = at_s

    def keep(self, job: Job, until_s: float) -> None:
        """The job's domain is paid for, up to then."""
        self.drained[int(job.index)] = (job, until_s)

    def protected_until_s(self, job: Job) -> float:
        """Until when the job keeps its GPUs, in the past if nothing was paid for it."""
        entry = self.drained.get(int(job.index))
        return entry[1] if entry is not None else NEVER


picklable(IdleCredit)


def most_free(tier: i64, cluster: Cluster) -> i64:
    """Free GPUs of the tier's emptiest domain."""
    if tier == cluster.root:
        return cluster.free_gpus
    buckets = cluster.tier_buckets[tier]
    domain = buckets.emptiest()
    return buckets.free[domain] if domain >= 0 else 0
