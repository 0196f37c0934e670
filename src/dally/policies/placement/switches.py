"""Slurm's `--switches=1@max_wait`."""

from __future__ import annotations

from bisect import bisect_left

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit
from dally.policies.queue import demand

LEAF: i64 = 1  # the tier below one leaf switch


@mypyc_attr(allow_interpreted_subclasses=True)
class SwitchesPlacement(Placement):
    """One leaf switch; anything once `max_wait_s` have passed since the job first was offered more switches.

    Slurm's manual, sbatch --switches, with SchedulerParameters=max_switch_wait. The clock starts when Slurm
    first finds GPUs for the job under several switches only, and does not stop again. A gang that fits one machine
    is asked for with --nodes=1, as users do: it waits for a machine, however long. What we could not do: users who
    ask otherwise, as no trace says what they asked for.
    """

    patient = True

    def __init__(self, max_wait_s: float) -> None:
        self._max_wait_s: float = max_wait_s
        # By demand, when jobs were offered several switches, the first in line among them: the clock of
        # each began at the first of these moments in its wait.
        self._offers_s: dict[int, list[float]] = {}
        self._wakeup_s: float = INFINITY

    def begin_pass(self) -> None:
        self._wakeup_s = INFINITY

    def wakeup_s(self) -> float:
        return self._wakeup_s

    def widest(self, job: Job, cluster: Cluster) -> i64:
        return 0 if cluster.topology.closest_tier(job.gpus, job.group) == 0 else cluster.root

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        if self.widest(job, cluster) == 0:
            return best_fit(cluster, 0, job.gpus, job.group)
        leaf = min(LEAF, cluster.root)
        for tier in range(leaf + 1):
            found = best_fit(cluster, tier, job.gpus, job.group)
            if found is not None:
                return found
        for tier in range(leaf + 1, cluster.root + 1):
            found = best_fit(cluster, tier, job.gpus, job.group)
            if found is not None:
                return found if self._waited_enough(job, now) else None
        return None

    def holds_out_s(self, job: Job, tier: i64, now: float, cluster: Cluster) -> float:
        if tier > 0 and self.widest(job, cluster) == 0:
            return INFINITY
        offers = self._offers_s.get(demand(job), [])
        first = bisect_left(offers, job.lost_s)
        if tier <= LEAF or first == len(offers):
            return 0.0
        return offers[first] + self._max_wait_s - job.lost_s

    def _waited_enough(self, job: Job, now: float) -> bool:
        offers = self._offers_s.setdefault(demand(job), [])
        if not offers or offers[-1] < now:
            offers.append(now)
        ready_s = offers[bisect_left(offers, job.lost_s)] + self._max_wait_s
        if ready_s > now:
            self._wakeup_s = min(self._wakeup_s, ready_s)
            return False
        return True
