"""What a placement is."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.part import Part


@mypyc_attr(allow_interpreted_subclasses=True)
class Placement(Part):
    """Picks free GPUs for a job, or declines what is on offer."""

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        raise NotImplementedError
