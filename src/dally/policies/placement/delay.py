"""Placements that decline farther places for a while: by timers, by what a place costs, or as Slurm does."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Job
from dally.policies.base import Param
from dally.policies.delay_timers import Timers
from dally.policies.placement.base import Placement, Wakeups
from dally.policies.placement.best_fit import best_fit
from dally.policies.queue import demand
from dally.policies.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayPlacement(Placement):
    """Delay scheduling over machine → rack → network; all timers run from when the job last began to wait."""

    def __init__(self, timers: Timers) -> None:
        self.timers: Timers = timers

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        tier = self.offered(cluster, job.gpus, job.group)
        if tier < 0 or job.lost_s + self.patience_s(cluster, tier, job.gpus, job.group, now, job.signature) > now:
            return None
        return best_fit(cluster, tier, job.gpus, job.group)

    def patience_s(
        self, cluster: Cluster, tier: i64, gpus: i64, group: i64, now: float, signature: i64 = 0
    ) -> float:
        """How long such a gang must have waited to take that tier; 0 if it can get no closer."""
        if tier <= cluster.closest_tier_of(gpus, group, signature):
            return 0.0
        return self.timers.wait_s(tier, cluster.root, gpus, now)

    def delay_s(self, job: Job, tier: i64, now: float, cluster: Cluster) -> float:
        return self.patience_s(cluster, tier, job.gpus, job.group, now, job.signature)


PATIENCE: Final = Param(
    "patience",
    1.0,
    "a gang declines a placement until it has waited this many times as long as it would lose there",
)


@mypyc_attr(allow_interpreted_subclasses=True)
class BreakEvenDelay(Placement):
    """Takes a place once waiting for a better one has cost as much as the better one would save.

    The cost of a place is the predicted time of the job × how much slower it would run there, beside today's
    traffic, than at its closest place. The time counts from the moment when the gang was first offered GPUs.
    With this rule a job never loses more than twice what its best choice would have lost. A job without a
    prediction takes the first place it is offered.
    """

    def __init__(self, inner: Placement, patience: float) -> None:
        self._inner: Placement = inner
        self._patience: float = patience
        self._offered_s: dict[int, float] = {}  # when each waiting gang was first offered GPUs
        self._models: dict[str, int] = {}  # numbered as they come
        self._wakeups: Wakeups = Wakeups()

    def begin(self, view: View) -> None:
        super().begin(view)
        self._inner.begin(view)

    def kind(self, job: Job) -> int:
        """By model: what is a bad place for one may do for another."""
        return self._models.setdefault(job.model, len(self._models) % 1000)

    def begin_pass(self, tenant: i64 = 0) -> None:
        self._wakeups.begin_pass(tenant)

    def wakeup_s(self, now: float) -> float:
        return self._wakeups.next_s(now)

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        allocation = self._inner.place(job, now, cluster)
        if allocation is None:
            return None
        since_s = self._offered_s.setdefault(int(job.index), now)
        ready_s = since_s + self._patience * self._loss_s(job, allocation)
        if ready_s > now:
            self._wakeups.add(ready_s)
            return None
        del self._offered_s[int(job.index)]
        return allocation

    def _loss_s(self, job: Job, allocation: Allocation) -> float:
        loss = self.view.slowdown(job, allocation)[0] - self.view.best(job)
        return max(job.predicted_s, 0.0) * loss if loss > 0.0 else 0.0


LEAF: i64 = 1  # the tier below one leaf switch


@mypyc_attr(allow_interpreted_subclasses=True)
class SwitchesPlacement(Placement):
    """One leaf switch; any GPUs once `max_wait_s` have passed since the job was first offered several switches.

    Slurm's manual, sbatch --switches, with SchedulerParameters=max_switch_wait. The clock starts when Slurm
    first finds GPUs for the job under several switches only, and does not stop again. A gang that fits one
    machine requests --nodes=1, as users do, and waits for a machine without limit. Traces do not record what
    users requested, so other requests are left out.
    """

    has_delays = True

    def __init__(self, max_wait_s: float) -> None:
        self._max_wait_s: float = max_wait_s
        # By demand, when jobs were offered several switches, the first in the queue among them: the clock of
        # each began at the first of these moments in its wait.
        self._offers_s: dict[int, list[float]] = {}
        self._wakeups: Wakeups = Wakeups()

    def begin_pass(self, tenant: i64 = 0) -> None:
        self._wakeups.begin_pass(tenant)

    def wakeup_s(self, now: float) -> float:
        return self._wakeups.next_s(now)

    def widest(self, job: Job, cluster: Cluster) -> i64:
        return 0 if cluster.closest_tier(job) == 0 else cluster.root

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        if self.widest(job, cluster) == 0:
            return best_fit(cluster, 0, job.gpus, job.group)
        leaf = min(LEAF, cluster.root)
        for tier in range(leaf + 1):
            allocation = best_fit(cluster, tier, job.gpus, job.group)
            if allocation is not None:
                return allocation
        for tier in range(leaf + 1, cluster.root + 1):
            allocation = best_fit(cluster, tier, job.gpus, job.group)
            if allocation is not None:
                return allocation if self._waited_enough(job, now) else None
        return None

    def delay_s(self, job: Job, tier: i64, now: float, cluster: Cluster) -> float:
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
            self._wakeups.add(ready_s)
            return False
        return True
