"""Tiresias's orders: queues by attained service, and their ranks learnt as Gittins indices."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from math import ceil

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import CANCELLED, INFINITY, RUNNING, Job
from dally.pickles import picklable
from dally.policies.ordering.base import Order

GROWTH = 1.1  # so many times more jobs must have finished for limits and indices to be worked out again
QUANTILES = (0.5, 0.8, 0.95)  # of the service of finished jobs: the limits of queues that are learnt
USUAL_LIMITS = [3250.0, 7200.0, 18000.0]  # GPU-seconds, of the paper's artifact; until others are learnt
GRAIN_S = 1.0 / 1024.0  # service counts in such steps: what a float rounds off must not decide; sums are exact
SOON_S = 2e-6  # a job due so soon changes queues now: moments that are worked out differ by what a float rounds off
STEPS = 2.0**20  # of a second, for wake-ups


@mypyc_attr(allow_interpreted_subclasses=True)
class DiscreteLas(Order):
    """By queue, the least attained GPU-seconds first; in a queue by first start, then submission.

    Gu et al., Tiresias, NSDI 2019: discretised two-dimensional LAS, for clusters that do not know how long jobs
    run. The paper reports a mean JCT up to 5.5 times shorter than that of a manager in production, and near that of
    schedulers that know durations; this implementation shows the same against `fifo`
    (tests/policies/test_claims.py). A job falls to the next queue when its GPU-seconds reach the queue's limit. A
    job that has waited `promote` times as long as it ran returns to the first queue with both clocks reset; the
    runs of the paper's artifact do not use this rule, and it is off by default. The paper leaves the limits to the
    operator. Here they are quantiles (0.5, 0.8 and 0.95) of the GPU-seconds of the jobs finished so far, because
    fixed limits of one or five hours put nearly all the work of month-long jobs into the last queue, which is FIFO.
    Until `learn_from` jobs have finished, the artifact's limits apply. Departures: a restart does not count as
    service, because a gang whose restart alone took it to the next queue would never get any work done; and the
    limits of the paper's own runs are not used, because the paper states them for its own traces only.
    """

    def __init__(self, limits: list[float], promote: float, learn_from: i64) -> None:
        self._learns_limits: bool = len(limits) == 0
        self.limits: list[float] = USUAL_LIMITS if self._learns_limits else limits  # none: to be learnt
        self.promote: float = promote  # PROMOTEKNOB; infinity: never
        self._services: list[float] = []  # of finished jobs, in GPU-seconds
        self._next_lesson: i64 = learn_from  # finished jobs at which they are looked at again
        self._levels: dict[int, int] = {}  # the queue of every job that is not in the first
        self._forgiven_s: dict[int, float] = {}  # time with GPUs that no longer counts, by job
        self._forgiven: dict[int, float] = {}  # and the same of its service, in GPU-seconds
        self._jobs: dict[int, Job] = {}  # in the system
        self._due: IndexedHeap = IndexedHeap()  # when each job changes queues

    def level(self, job: Job) -> int:
        """The number of the job's queue."""
        return self._levels.get(int(job.index), 0)

    def key(self, job: Job, now: float) -> float:
        return float(self.level(job))

    def tie(self, job: Job) -> float:
        return job.start_s if job.start_s >= 0.0 else job.submit_s

    def changed(self, now: float, cluster: Cluster) -> list[Job]:
        lesson = len(self._services) >= self._next_lesson
        if lesson:
            self._next_lesson = int(len(self._services) * GROWTH) + 1
            self._learn(sorted(self._services), now)
        jobs: list[Job] = []
        while len(self._due) > 0 and self._due.key(self._due.first()) <= now + SOON_S:
            job = self._jobs[int(self._due.pop())]
            jobs.append(job)
            if job.status == RUNNING:
                self._levels[int(job.index)] = self.level(job) + 1
                self._expect_limit(job, now)
            else:
                self._levels[int(job.index)] = 0
                self._forgiven_s[int(job.index)] = job.run_s(now)
                self._forgiven[int(job.index)] = attained(job, now)
        return list(self._jobs.values()) if lesson else jobs

    def _learn(self, services: list[float], now: float) -> None:
        """Set the limits by the services of finished jobs, and put every job into its queue by them."""
        limits = limits_of(services)
        if not self._learns_limits or not limits:
            return
        self.limits = limits
        self._levels.clear()
        for job in self._jobs.values():
            if job.status == RUNNING:
                self._expect_limit(job, now)
            else:
                self._sink(job, now)
                if not self._due.holds(job.index):
                    self._expect_promotion(job, job.lost_s)

    def wakeup_s(self) -> float:
        return just_after(self._due.key(self._due.first())) if len(self._due) > 0 else INFINITY

    def queued(self, job: Job, now: float) -> None:
        self._jobs[int(job.index)] = job
        self._expect_promotion(job, now)

    def started(self, job: Job, now: float) -> None:
        self._expect_limit(job, now)

    def stopped(self, job: Job, now: float) -> None:
        self._due.discard(job.index)
        self._sink(job, now)

    def finished(self, job: Job, now: float) -> None:
        self._services.append(attained(job, now))
        self._forget(job)

    def withdrawn(self, job: Job, now: float) -> None:
        self._due.discard(job.index)
        self._jobs.pop(int(job.index), None)
        if job.status == CANCELLED:
            self._forget(job)

    def _forget(self, job: Job) -> None:
        self._levels.pop(int(job.index), None)
        self._forgiven_s.pop(int(job.index), None)
        self._forgiven.pop(int(job.index), None)
        self._jobs.pop(int(job.index), None)

    def service(self, job: Job, now: float) -> float:
        """What it has attained since it was last promoted, in GPU-seconds."""
        return attained(job, now) - self._forgiven.get(int(job.index), 0.0)

    def _sink(self, job: Job, now: float) -> None:
        """Past every limit that its service has reached."""
        service = self.service(job, now) + GRAIN_S * float(job.gpus)  # a step short of a limit has reached it
        level = self.level(job)
        while level < len(self.limits) and service >= self.limits[level]:
            level += 1
        if level > 0:
            self._levels[int(job.index)] = level

    def _expect_promotion(self, job: Job, since_s: float) -> None:
        if self.level(job) > 0 and self.promote < INFINITY:
            held_s = job.run_s(since_s) - self._forgiven_s.get(int(job.index), 0.0)
            self._due.put(job.index, since_s + self.promote * held_s, 0.0)

    def _expect_limit(self, job: Job, now: float) -> None:
        self._sink(job, now)
        level = self.level(job)
        if level < len(self.limits):
            left = self.limits[level] - self.service(job, now)
            works_s = job.since_s if job.since_s > now else now  # it may still be restarting
            self._due.put(job.index, works_s + left / float(job.gpus), 0.0)
        else:
            self._due.discard(job.index)


@mypyc_attr(allow_interpreted_subclasses=True)
class GittinsLas(DiscreteLas):
    """By Gittins index, the largest first.

    Tiresias's other order, for clusters that know the distribution of durations, and at least as good there. G(a) =
    P(S - a ≤ Δ | S > a) ÷ E[min(S - a, Δ) | S > a], where S is a job's service in GPU-seconds, a what it has
    attained and Δ the width of its queue. The distribution of S is that of the jobs finished so far; until
    `learn_from` have finished, queues rank as under LAS. Departure from the paper: a job's index is computed when
    it starts or changes queues, not all the time.
    """

    def __init__(self, limits: list[float], promote: float, learn_from: i64) -> None:
        super().__init__(limits, promote, learn_from)
        self._table: GittinsTable | None = None
        self._indices: dict[int, float] = {}  # minus the Gittins index, by job

    def key(self, job: Job, now: float) -> float:
        index = self._indices.get(int(job.index))
        return self._rank(job, now) if index is None else index

    def started(self, job: Job, now: float) -> None:
        super().started(job, now)
        self._indices[int(job.index)] = self._rank(job, now)

    def stopped(self, job: Job, now: float) -> None:
        # A job that loses its GPUs keeps its index: with another one it might come before whoever took them.
        before = self.level(job)
        super().stopped(job, now)
        if self.level(job) != before:
            self._indices[int(job.index)] = self._rank(job, now)

    def _forget(self, job: Job) -> None:
        super()._forget(job)
        self._indices.pop(int(job.index), None)

    def changed(self, now: float, cluster: Cluster) -> list[Job]:
        jobs = super().changed(now, cluster)
        for job in jobs:
            self._indices[int(job.index)] = self._rank(job, now)
        return jobs

    def _learn(self, services: list[float], now: float) -> None:
        super()._learn(services, now)
        self._table = GittinsTable(services)

    def _rank(self, job: Job, now: float) -> float:
        level = self.level(job)
        table = self._table
        if table is None:
            return float(level)
        begin = self.limits[level - 1] if level > 0 else 0.0
        width = self.limits[level] - begin if level < len(self.limits) else INFINITY
        return -table.index(self.service(job, now), width)


def just_after(moment_s: float) -> float:
    """The moment, or the next in steps below SOON_S: a job that ends at that very moment has ended by then."""
    return ceil(moment_s * STEPS - 0.01) / STEPS


def attained(job: Job, now: float) -> float:
    """The job's service in GPU-seconds, restarts aside.

    In whole steps: two starts at one instant would else leave it with a rank of its own by the last bit, and gangs
    of one rank would preempt each other without end.
    """
    return float(round(job.worked_s(now) / GRAIN_S)) * GRAIN_S * float(job.gpus)


def limits_of(services: list[float]) -> list[float]:
    """The quantiles of services in rising order that part the queues; equal ones once, and none of 0."""
    limits: list[float] = []
    for share in QUANTILES:
        limit = services[min(int(share * len(services)), len(services) - 1)]
        if limit > (limits[-1] if limits else 0.0):
            limits.append(limit)
    return limits


class GittinsTable:
    """Services of finished jobs in rising order, and their sums from the first on."""

    def __init__(self, services: list[float]) -> None:
        self._services: list[float] = sorted(services)
        self._sums: list[float] = list(accumulate(self._services, initial=0.0))

    def index(self, attained: float, width: float) -> float:
        """The Gittins index of a job with that service, per GPU-second; 0 if none is known to have had more."""
        first = bisect_right(self._services, attained)
        last = bisect_right(self._services, attained + width)
        beyond = len(self._services) - first
        spent = self._sums[last] - self._sums[first] - attained * (last - first)
        if beyond > last - first:
            spent += width * (beyond - (last - first))
        return (last - first) / spent if spent > 0.0 else 0.0


picklable(GittinsTable, [])
