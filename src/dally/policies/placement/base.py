"""What a placement is."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Job
from dally.pickles import picklable
from dally.policies.part import Part
from dally.policies.placement.groups import usable


@mypyc_attr(allow_interpreted_subclasses=True)
class Placement(Part):
    """Picks free GPUs for a job, or declines what is on offer."""

    has_delays: bool = False  # whether jobs decline farther tiers for a while, each on a clock of its own

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        raise NotImplementedError

    def kind(self, job: Job) -> int:
        """A number below 2^20 that tells apart jobs of one size that are not equally easy to place."""
        return 0

    def widest(self, job: Job, cluster: Cluster) -> i64:
        """The farthest tier it would ever give the job; free GPUs in one domain of it are enough."""
        return cluster.root

    def offered(self, cluster: Cluster, gpus: i64, group: i64) -> i64:
        """The closest tier with room right now for such a gang, which is in focus, or -1."""
        if cluster.free_gpus < gpus:
            return -1
        for tier in range(cluster.root + 1):
            if group > 1 and tier > 0 and not cluster.in_groups:
                for domain in range(len(cluster.free[tier])):
                    if cluster.free[tier][domain] >= gpus and usable(cluster, tier, domain, group) >= gpus:
                        return tier
            elif cluster.best_domain(tier, gpus) >= 0:
                return tier
        return -1

    def delay_s(self, job: Job, tier: i64, now: float, cluster: Cluster) -> float:
        """How long the job must have waited to take that tier; 0: it takes it, infinity: it never does."""
        return 0.0 if tier <= self.widest(job, cluster) else INFINITY

    def begin_pass(self, tenant: i64 = 0) -> None:
        """A scheduling pass begins, for that tenant's jobs alone (policies/gate)."""

    def wakeup_s(self, now: float) -> float:
        """When a job that was declined in its tenant's latest pass would take what is on offer."""
        return INFINITY


class Wakeups:
    """By tenant, when somebody who was declined in its latest pass would take what is on offer."""

    __slots__ = ("_at_s", "_tenant")

    def __init__(self) -> None:
        self._at_s: dict[int, float] = {}
        self._tenant: int = 0

    def begin_pass(self, tenant: i64) -> None:
        """What was said of the tenant no longer holds."""
        self._tenant = int(tenant)
        self._at_s.pop(self._tenant, None)

    def add(self, at_s: float) -> None:
        """Somebody of the pass would at that moment."""
        if at_s < self._at_s.get(self._tenant, INFINITY):
            self._at_s[self._tenant] = at_s

    def next_s(self, now: float) -> float:
        """The first of these moments that is to come."""
        soonest = INFINITY
        for at_s in self._at_s.values():
            if now < at_s < soonest:
                soonest = at_s
        return soonest


picklable(Wakeups)
