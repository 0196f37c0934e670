"""A policy that no cluster should have: it moves running jobs for no reason, to see what becomes of them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from dally import Action, Cluster, Job, Migrate, Param, Policy, PolicyEvent, Preempt, Queue, Start, best_fit, events


class Restless(Policy):
    """First come, first served; in every pass it moves or stops each running job with a set probability."""

    PARAMS = (Param("share", 0.15, "of running jobs that are moved or stopped in a pass"),)
    migrates = True

    def __init__(self, share: float = 0.15) -> None:
        self.share = share
        self._chance = random.Random(1)
        self._running: dict[int, Job] = {}

    def on(self, event: PolicyEvent) -> None:
        """Keeps track of the jobs that run."""
        if event.job is not None and event.kind == events.STARTED:
            self._running[int(event.job.index)] = event.job
        elif event.job is not None and event.kind == events.STOPPED:
            self._running.pop(int(event.job.index), None)

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        self.wakeup_s = now + 1.0
        stopped: set[int] = set()  # the first in line by now: others are to have their GPUs
        for job in list(self._running.values()):
            if self._chance.random() < self.share:
                allocation = best_fit(cluster, cluster.root, job.gpus, job.group)
                if allocation is None:
                    stopped.add(int(job.index))
                yield Preempt(job) if allocation is None else Migrate(job, allocation)
        for job in queue:
            if job.gpus > cluster.free_gpus or int(job.index) in stopped:
                continue
            allocation = best_fit(cluster, cluster.root, job.gpus, job.group)
            if allocation is not None:
                yield Start(job, allocation)
