"""A policy in one file: first come, first served, but a gang waits a while to sit close together."""

from __future__ import annotations

from collections.abc import Iterator

from dally import Action, Cluster, Param, Policy, Queue, Start, best_fit


class Patient(Policy):
    """Declines a placement farther than the closest possible one until it has waited `patience_s`."""

    PARAMS = (Param("patience_s", 600.0, "seconds that a gang waits for a closer place"),)

    def __init__(self, patience_s: float = 600.0) -> None:
        self.patience_s = patience_s

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        self.wakeup_s = float("inf")
        for job in queue:  # best rank first; the rank is the submit time unless `self.order` is another
            if job.gpus > cluster.free_gpus:
                continue
            delay_ends_s = job.lost_s + self.patience_s
            farthest = cluster.topology.closest_tier(job.gpus)
            if now >= delay_ends_s:
                farthest = cluster.root
            for tier in range(farthest + 1):
                allocation = best_fit(cluster, tier, job.gpus, job.group)
                if allocation is not None:
                    yield Start(job, allocation)
                    break
            else:
                if now < delay_ends_s:
                    self.wakeup_s = min(self.wakeup_s, delay_ends_s)
