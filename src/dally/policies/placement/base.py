"""What a placement is."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Job
from dally.policies.part import Part


@mypyc_attr(allow_interpreted_subclasses=True)
class Placement(Part):
    """Picks free GPUs for a job, or declines what is on offer."""

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        raise NotImplementedError

    def kind(self, job: Job) -> int:
        """A number below 2^20 that tells apart jobs of one size that are not equally easy to place."""
        return 0

    def widest(self, job: Job, cluster: Cluster) -> i64:
        """The farthest tier it would ever give the job; free GPUs in one domain of it are enough."""
        return cluster.root

    def begin_pass(self) -> None:
        """A scheduling pass begins."""

    def wakeup_s(self) -> float:
        """When a job that was declined in this pass would take what is on offer."""
        return INFINITY
