"""optimal-tiny: the least mean completion time that any schedule of a few jobs attains, by exhaustive search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, RUNNING, WAITING, Action, Job, Preempt, Start
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.events import PolicyEvent
from dally.policies.placement.best_fit import BestFit
from dally.policies.queue import Queue

MOST_JOBS = 6
Ask = tuple[int, int, int]  # submit_s, GPUs, duration_s


class OptimalTiny(Policy):
    """Acts out the best schedule there is. It knows the jobs to come, so it is no scheduler, only a yardstick.

    All times are whole seconds, places are equal and preemption is free: whoever acts at whole seconds only
    cannot do better. Running fewer jobs than fit never helps then, so only sets to which no job
    can be added are tried.
    """

    def __init__(self, jobs: list[Ask], gpus: int) -> None:
        assert len(jobs) <= MOST_JOBS, f"{len(jobs)} jobs: too many to try every schedule"
        self._sets = best_schedule(jobs, gpus)  # who runs in each second
        self._known: dict[int, Job] = {}
        self._placement = BestFit()

    def on(self, event: PolicyEvent) -> None:
        if event.kind == events.QUEUED and event.job is not None:
            self._known[int(event.job.index)] = event.job

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        second = int(now)
        self.wakeup_s = now + 1.0 if second + 1 < len(self._sets) else INFINITY
        return self._act(self._sets[second] if second < len(self._sets) else (), now, cluster)

    def _act(self, chosen: tuple[int, ...], now: float, cluster: Cluster) -> Iterator[Action]:
        for index, job in self._known.items():
            if job.status == RUNNING and index not in chosen:
                yield Preempt(job)
        for index in chosen:
            job = self._known[index]
            if job.status == WAITING:
                allocation = self._placement.place(job, now, cluster)
                assert allocation is not None
                yield Start(job, allocation)


def best_schedule(jobs: list[Ask], gpus: int) -> list[tuple[int, ...]]:
    """For every second the jobs that run in it, so that completion times add up to the least."""

    @cache
    def cost(second: int, left: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        """Least sum of completion times from here on, and who runs in this second."""
        if not any(left):
            return 0.0, ()
        best: tuple[float, tuple[int, ...]] = (INFINITY, ())
        here = [index for index, ask in enumerate(jobs) if left[index] and ask[0] <= second]
        for chosen in _fullest(here, [ask[1] for ask in jobs], gpus):
            after = tuple(work - (index in chosen) for index, work in enumerate(left))
            done = sum(second + 1 for index in chosen if after[index] == 0)
            total = done + cost(second + 1, after)[0]
            if total < best[0]:
                best = (total, chosen)
        return best

    found: list[tuple[int, ...]] = []
    left = tuple(ask[2] for ask in jobs)
    while any(left):
        _, chosen = cost(len(found), left)
        found.append(chosen)
        left = tuple(work - (index in chosen) for index, work in enumerate(left))
    return found


def _fullest(jobs: list[int], sizes: list[int], gpus: int) -> list[tuple[int, ...]]:
    """Sets of jobs that fit together and to which no other can be added."""
    found: list[tuple[int, ...]] = []
    for count in range(len(jobs), -1, -1):
        for chosen in combinations(jobs, count):
            used = sum(sizes[index] for index in chosen)
            others = [sizes[index] for index in jobs if index not in chosen]
            if used <= gpus and all(used + size > gpus for size in others):
                found.append(chosen)
    return found
