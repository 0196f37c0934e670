"""Slurm's multifactor priority: age, size, fair share with a half-life, partition and QOS."""

from __future__ import annotations

from typing import NamedTuple

from mypy_extensions import mypyc_attr

from dally.model import Job
from dally.pickles import picklable
from dally.policies.ordering.base import Order


class Weights(NamedTuple):
    """PriorityWeight* and what goes with them; points of partitions and QOS are added as they are."""

    age: float = 1000.0
    size: float = 1000.0
    fair_share: float = 10000.0
    max_age_s: float = 7.0 * 86400.0
    half_life_s: float = 7.0 * 86400.0
    partitions: dict[str, float] = {}  # noqa: RUF012  # never changed
    qos: dict[str, float] = {}  # noqa: RUF012


class FairShare:
    """GPU-seconds that accounts used of late, and what they are due: equal shares.

    The factor is 2^(-used ÷ due), both as shares of all, as in Slurm's classic fair share; an account that used
    nothing has 1, one that used what it is due 0.5. Jobs without an account count for their user.
    """

    __slots__ = ("_at_s", "_charged_s", "_half_life_s", "_running", "_total", "_used")

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s: float = half_life_s
        self._used: dict[str, float] = {}
        self._total: float = 0.0
        self._running: dict[int, Job] = {}
        self._charged_s: dict[int, float] = {}  # up to when running jobs are charged
        self._at_s: float = 0.0  # when usage was last decayed

    def meet(self, job: Job) -> None:
        """An account that submits is due a share from then on."""
        self._used.setdefault(_account(job), 0.0)

    def started(self, job: Job, now: float) -> None:
        self._running[int(job.index)] = job
        self._charged_s[int(job.index)] = now

    def stopped(self, job: Job, now: float) -> None:
        self._charge(job, now)
        del self._running[int(job.index)]
        del self._charged_s[int(job.index)]

    def bring_up(self, now: float) -> None:
        """Let old usage fade and charge those who run."""
        fades = 0.5 ** ((now - self._at_s) / self._half_life_s) if now > self._at_s else 1.0
        self._at_s = now
        self._total = 0.0
        for account in self._used:
            self._used[account] *= fades
        for job in self._running.values():
            self._charge(job, now)
        for used in self._used.values():
            self._total += used

    def factor(self, job: Job) -> float:
        """From 1, nothing used, towards 0."""
        if self._total <= 0.0:
            return 1.0
        used = self._used.get(_account(job), 0.0) / self._total
        due = 1.0 / float(len(self._used))
        return float(2.0 ** (-used / due))

    def _charge(self, job: Job, now: float) -> None:
        index = int(job.index)
        self._used[_account(job)] += float(job.gpus) * (now - self._charged_s[index])
        self._charged_s[index] = now


picklable(FairShare, 1.0)


def _account(job: Job) -> str:
    return job.account or job.user


@mypyc_attr(allow_interpreted_subclasses=True)
class MultifactorOrder(Order):
    """By priority, highest first."""

    def __init__(self, weights: Weights) -> None:
        self.shares: FairShare = FairShare(weights.half_life_s)
        self.total_gpus: int = 1
        self._weights: Weights = weights

    def key(self, job: Job, now: float) -> float:
        return -priority(job, now, self._weights, self.shares, self.total_gpus)


def priority(job: Job, now: float, weights: Weights, shares: FairShare, total_gpus: int) -> float:
    """The job's priority, highest first."""
    age = (now - job.submit_s) / weights.max_age_s
    return (
        weights.age * (age if age < 1.0 else 1.0)
        + weights.size * float(job.gpus) / float(total_gpus)
        + weights.fair_share * shares.factor(job)
        + weights.partitions.get(job.partition, 0.0)
        + weights.qos.get(job.qos, 0.0)
    )
