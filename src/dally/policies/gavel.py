"""Gavel: time fractions from a linear program, realised in rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, RUNNING, Action, Job, Preempt, Start
from dally.policies.base import Policy
from dally.policies.max_min import max_min_fractions
from dally.policies.placement.base import Placement
from dally.policies.queue import Queue
from dally.policies.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class GavelPolicy(Policy):
    """Max-min fairness over GPU shares: in each round run those who lack most of the time due to them.

    Narayanan et al., Gavel, OSDI 2020. A job's priority is the fraction of time it is due, by the max-min linear
    program over the jobs in the system, over the fraction it has had since it came; who never ran goes first.
    GPUs that become free in a round stand idle until the next. We depart from the paper: all GPUs are of one
    kind, so that the program shares out time alone; fractions had are counted from the job's submission, without
    restarts; and a gang keeps its GPUs until it has worked for half a round.
    """

    def __init__(self, placement: Placement, round_s: float) -> None:
        self.placement: Placement = placement
        self._round_s: float = round_s
        self._next_s: float = -INFINITY  # when the next round begins
        self._jobs: dict[int, Job] = {}  # in the system
        self._works_from_s: dict[int, float] = {}  # when its restart is over, of those that were placed
        self._sizes: dict[int, int] = {}  # how many of each gang size
        self._solved: dict[tuple[tuple[int, int], ...], dict[int, float]] = {}

    def begin(self, view: View) -> None:
        super().begin(view)
        self.placement.begin(view)

    def queued(self, job: Job, now: float) -> None:
        if int(job.index) not in self._jobs:
            self._jobs[int(job.index)] = job
            self._sizes[int(job.gpus)] = self._sizes.get(int(job.gpus), 0) + 1

    def started(self, job: Job, now: float) -> None:
        self._works_from_s[int(job.index)] = job.since_s

    def finished(self, job: Job, now: float) -> None:
        del self._works_from_s[int(job.index)]
        del self._jobs[int(job.index)]
        self._sizes[int(job.gpus)] -= 1

    def next_wakeup(self, now: float) -> float:
        return self._next_s if self._jobs else INFINITY

    def fractions(self, gpus: int) -> dict[int, float]:
        """The fraction of time due to a job of each size."""
        key = (*sorted((size, count) for size, count in self._sizes.items() if count), (0, gpus))
        found = self._solved.get(key)
        if found is None:
            if len(self._solved) > 1000:
                self._solved.clear()
            found = max_min_fractions(dict(key[:-1]), float(gpus))
            self._solved[key] = found
        return found

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        if not self._jobs or now < self._next_s:
            return []
        self._next_s = now + self._round_s
        if len(queue) == 0:
            return []
        return self._round(now, cluster)

    def _round(self, now: float, cluster: Cluster) -> Iterator[Action]:
        room = cluster.free_gpus
        for job in cluster.running.values():
            room += job.gpus
        for job in self._jobs.values():
            if job.status == RUNNING and not self._has_worked(job, now):
                room -= job.gpus
        chosen: list[Job] = []
        others: list[Job] = []
        for job in self._ranked(now, cluster.topology.total_gpus()):
            if job.status == RUNNING and not self._has_worked(job, now):
                continue
            if job.gpus <= room and job.group == 1:
                room -= job.gpus
                chosen.append(job)
            elif job.gpus <= room and job.status == RUNNING:
                room -= job.gpus
            else:
                others.append(job)
        for job in others:
            if job.status == RUNNING:
                yield Preempt(job)
        # A gang in groups gets what is left: enough GPUs need not mean a place for it.
        for job in [*chosen, *others]:
            if job.status == RUNNING:
                continue
            allocation = self.placement.place(job, now, cluster)
            if allocation is not None:
                yield Start(job, allocation)

    def _has_worked(self, job: Job, now: float) -> bool:
        """For half a round since it was placed; until then it keeps its GPUs, or a long restart would never end."""
        return self._works_from_s[int(job.index)] + 0.5 * self._round_s <= now

    def _ranked(self, now: float, gpus: i64) -> list[Job]:
        """Jobs in the system, who lacks most first; ties by submission."""
        due = self.fractions(int(gpus))
        rows: list[tuple[float, int, Job]] = []
        for index, job in self._jobs.items():
            had_s = job.worked_s(now)
            lack = due[int(job.gpus)] * (now - job.submit_s) / had_s if had_s > 0.0 else INFINITY
            rows.append((-lack, index, job))
        rows.sort(key=_rank)
        return [row[2] for row in rows]


def _rank(row: tuple[float, int, Job]) -> tuple[float, int]:
    return row[:2]
