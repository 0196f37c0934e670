"""Ageing: where gangs of a whole cluster do much of the work, ranks fall with how long a job takes for its work."""

from __future__ import annotations

import math
from typing import Final

from dally.model import INFINITY, Job
from dally.pickles import picklable

FORGOTTEN: Final = 0.001  # share of the work seen that every finish makes it forget: workloads change


class Ageing:
    """What divides a rank: (time in the system ÷ work, of at least `least_s`, ÷ `stretch`) ** `power`, from 1 on.

    Such gangs and the narrow jobs that would take their place can only alternate. An order by GPU time gives all
    turns to the shortest, and leaves the long ones of either kind for the end. Where no such gang runs, narrow jobs
    fill what others leave, and nobody has to wait for the end: there, ageing costs mean JCT and helps no tail.
    """

    __slots__ = ("_gpu_s", "_least_s", "_power", "_share", "_stretch", "_wide_gpu_s", "gpus", "now")

    def __init__(self, power: float, stretch: float, least_s: float, share: float) -> None:
        """`share`: of the work that ended, what gangs of a whole cluster must have done."""
        self._power: float = power
        self._stretch: float = stretch
        self._least_s: float = least_s
        self._share: float = share
        self._gpu_s: float = 0.0
        self._wide_gpu_s: float = 0.0
        self.gpus: float = INFINITY  # from which on a gang is one of the whole cluster
        self.now: float = 0.0

    def ended(self, job: Job) -> None:
        """Count the work of a job that has ended."""
        gpu_s = float(job.gpus) * job.work_s
        self._gpu_s = (1.0 - FORGOTTEN) * self._gpu_s + gpu_s
        self._wide_gpu_s = (1.0 - FORGOTTEN) * self._wide_gpu_s + (gpu_s if float(job.gpus) >= self.gpus else 0.0)

    def _is_on(self) -> bool:
        """Whether gangs of a whole cluster do that much of the work."""
        return self._wide_gpu_s > 0.0 and self._wide_gpu_s >= self._share * self._gpu_s

    def alternates(self, job: Job) -> bool:
        """Whether the job is such a gang, where these do much of the work."""
        return float(job.gpus) >= self.gpus and self._is_on()

    def factor(self, job: Job) -> float:
        """What divides the job's rank now; at least 1."""
        if not self._is_on():
            return 1.0
        work_s = max(self._least_s, job.done_s(self.now))
        stretch = (self.now - job.submit_s) / (self._stretch * work_s)
        return math.pow(stretch, self._power) if stretch > 1.0 else 1.0

    def saved(self) -> list[float]:
        """What was seen: GPU-seconds of gangs of a whole cluster, and of all jobs."""
        return [self._wide_gpu_s, self._gpu_s]

    def restore(self, saved: list[float]) -> None:
        """Go on with what `saved` gave."""
        self._wide_gpu_s, self._gpu_s = saved


picklable(Ageing, 0.0, 0.0, 0.0, 0.0)
