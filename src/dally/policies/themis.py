"""Themis: GPUs go to those farthest behind what a fair share would have given them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, log

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import RUNNING, Action, Job, Preempt, Start
from dally.policies.base import Policy
from dally.policies.placement.base import Placement
from dally.policies.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class ThemisPolicy(Policy):
    """Finish-time fairness: rho = time to finish in the shared cluster ÷ time on a fair share of it.

    Mahajan et al., Themis, NSDI 2020. Free GPUs, and those whose leases ended, are offered to the 1 - f of the jobs
    with the worst rho. Among these, whoever gains most per GPU wins, as in the paper's auction: the gain is the
    logarithm of rho after waiting one more lease over rho when it runs now. What is left goes to the others, the
    worst rho first. We depart from the paper: a job is an app of its own, its remaining time is known, gangs are
    not split, and a fair share is 1/N of the cluster with N the mean over the job's life of all demands ÷ GPUs,
    at least 1.
    """

    def __init__(self, placement: Placement, lease_s: float, fairness: float) -> None:
        self.placement: Placement = placement
        self._lease_s: float = lease_s
        self._fairness: float = fairness  # f
        self._jobs: dict[int, Job] = {}  # in the system
        self._ended: dict[int, Job] = {}  # leases that ended now
        # Contention N and its integral over time up to `_since_s`; the integral at each job's submission.
        self._gpus: float = 0.0  # of the cluster; 0 until it is seen
        self._demand: float = 0.0
        self._since_s: float = 0.0
        self._integral: float = 0.0
        self._before: dict[int, float] = {}

    def lease_s(self) -> float:
        return self._lease_s

    def contention(self) -> float:
        """N: how many times over the cluster is asked for, at least 1."""
        return max(1.0, self._demand / self._gpus) if self._gpus > 0.0 else 1.0

    def rho(self, job: Job, now: float, later_s: float = 0.0) -> float:
        """Finish-time fairness, if the job gets GPUs `later_s` from now; above 1 it is worse off than alone."""
        age_s = now - job.submit_s
        integral = self._integral + (now - self._since_s) * self.contention() - self._before[int(job.index)]
        share = integral / age_s if age_s > 0.0 else self.contention()
        fair_s = job.duration_s * share
        return (age_s + later_s + job.remaining_s(now)) / fair_s if fair_s > 0.0 else 1.0

    def queued(self, job: Job, now: float) -> None:
        if int(job.index) not in self._jobs:
            self._change_demand(float(job.gpus), now)
            self._jobs[int(job.index)] = job
            self._before[int(job.index)] = self._integral

    def stopped(self, job: Job, now: float) -> None:
        self._ended.pop(int(job.index), None)

    def finished(self, job: Job, now: float) -> None:
        self._change_demand(-float(job.gpus), now)
        del self._jobs[int(job.index)]
        del self._before[int(job.index)]

    def lease_ended(self, job: Job, now: float) -> None:
        self._ended[int(job.index)] = job

    def _change_demand(self, gpus: float, now: float) -> None:
        self._integral += (now - self._since_s) * self.contention()
        self._since_s = now
        self._demand += gpus

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        if self._gpus == 0.0:
            self._gpus = float(cluster.topology.total_gpus())
        if len(queue) == 0 or (not self._ended and queue.best(float(cluster.free_gpus)) is None):
            self._ended.clear()
            return []
        return self._auction(now, list(queue), cluster)

    def _auction(self, now: float, waiting: list[Job], cluster: Cluster) -> Iterator[Action]:
        room = cluster.free_gpus
        for job in self._ended.values():
            room += job.gpus
        winners: list[Job] = []
        losers: list[Job] = []
        for job in self._ranked([*waiting, *self._ended.values()], now):
            if job.gpus <= room and (job.status == RUNNING or job.group == 1 or self._fits(job, now, cluster)):
                room -= job.gpus
                if job.status != RUNNING:
                    winners.append(job)
            elif job.status == RUNNING:
                losers.append(job)
        self._ended.clear()
        for job in losers:
            yield Preempt(job)
        for job in winners:
            allocation = self.placement.place(job, now, cluster)
            if allocation is not None:
                yield Start(job, allocation)

    def _fits(self, job: Job, now: float, cluster: Cluster) -> bool:
        """Nobody is preempted for a gang in groups: it wins only what is free as it is."""
        return self.placement.place(job, now, cluster) is not None

    def _ranked(self, jobs: list[Job], now: float) -> list[Job]:
        """The worst 1 - f by gain per GPU, then the others by rho; ties by submission."""
        rows = [(-self.rho(job, now), int(job.index), job) for job in jobs]
        rows.sort(key=_rank)
        bidders = max(1, ceil((1.0 - self._fairness) * len(rows) - 1e-9))
        bids = [(-self._gain(job, now), index, job) for _, index, job in rows[:bidders]]
        bids.sort(key=_rank)
        return [row[2] for row in [*bids, *rows[bidders:]]]

    def _gain(self, job: Job, now: float) -> float:
        rho = self.rho(job, now)
        return log(self.rho(job, now, self._lease_s) / rho) / float(job.gpus) if rho > 0.0 else 0.0


def _rank(row: tuple[float, int, Job]) -> tuple[float, int]:
    return row[:2]
