"""A policy that no cluster should have: it resizes running jobs for no reason, to see what becomes of them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from dally import (
    Action,
    Allocation,
    Cluster,
    Job,
    Param,
    Policy,
    PolicyEvent,
    Queue,
    Resize,
    Start,
    best_fit,
    events,
)


class RestlessSizes(Policy):
    """First come, first served, at any size that is free; in every pass it resizes running jobs at random."""

    PARAMS = (Param("share", 0.15, "of running elastic jobs that are resized in a pass"),)
    migrates = True

    def __init__(self, share: float = 0.15) -> None:
        self.share = share
        self.desired: dict[str, int] = {}  # sizes of jobs by name, instead of random ones
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
        for job in list(self._running.values()):
            for size in self._other_sizes(job):
                allocation = self._place(job, size, cluster)
                if allocation is not None:
                    yield Resize(job, allocation)
                    break
        for job in queue:
            sizes = job.sizes or (int(job.gpus),)
            wished = self.desired.get(job.job_id)
            for size in self._chance.sample(sizes, len(sizes)) if wished is None else [wished]:
                allocation = self._place(job, size, cluster)
                if allocation is not None:
                    yield Start(job, allocation)
                    break

    def _other_sizes(self, job: Job) -> list[int]:
        """What it is to run on instead, the first that has room."""
        sizes = [size for size in job.sizes if size != job.gpus]
        if job.job_id in self.desired:
            return [size for size in sizes if size == self.desired[job.job_id]]
        due = not job.non_preemptible and self._chance.random() < self.share
        return self._chance.sample(sizes, len(sizes)) if due else []

    def _place(self, job: Job, size: int, cluster: Cluster) -> Allocation | None:
        """Free GPUs and its own."""
        cluster.focus(job)
        trial = cluster.trial()
        if job.allocation is not None:
            trial.release(job.allocation)
        allocation = best_fit(cluster, cluster.root, size, job.group)
        trial.undo()
        return allocation
