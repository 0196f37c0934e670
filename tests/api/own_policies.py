"""Jobs worked out by hand, and policies as a notebook's cell would hold them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from dally.cluster import Cluster
from dally.model import INFINITY, Action, Start
from dally.policies.base import Policy
from dally.policies.placement.best_fit import best_fit
from dally.policies.queue import Queue

# On two machines of 8 GPUs, a and b leave 2 of each. c fits one machine when a ends at 100 s, and both at once.
JOBS = pl.DataFrame(
    {"job_id": ["a", "b", "c"], "submit_s": [0, 0, 1], "gpus": [6, 6, 4], "duration_s": [100, 300, 50]}
)
CLUSTER = "2x1x8"


def jct_mean_s(c_starts_s: float) -> float:
    """By hand: a and b run alone from 0 s on, c came at 1 s."""
    return (100.0 + 300.0 + c_starts_s - 1.0 + 50.0) / 3.0


class Waiting(Policy):
    """Starts a job on one machine; on several only from `until_s` on. Counts what it started."""

    def __init__(self, until_s: float = 200.0) -> None:
        self.until_s = until_s
        self.starts = 0

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        self.wakeup_s = self.until_s if now < self.until_s else INFINITY
        for job in queue:
            for tier in range(cluster.root + 1 if now >= self.until_s else 1):
                allocation = best_fit(cluster, tier, job.gpus, job.group)
                if allocation is not None:
                    self.starts += 1
                    yield Start(job, allocation)
                    break


class Broken(Policy):
    """Fails as soon as it is asked."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        raise ZeroDivisionError("of its own")
