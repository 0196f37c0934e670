"""Tiresias's placement: models dominated by one large tensor stay together."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit


@mypyc_attr(allow_interpreted_subclasses=True)
class SkewPlacement(Placement):
    """A gang whose model is skewed is placed at its closest tier or not at all; others go where there is room.

    Gu et al., Tiresias, NSDI 2019: skew is the largest tensor over the model's size. The paper finds that VGG and
    AlexNet must stay together and that ResNet and Inception need not, and states no limit. Ours lies in the middle,
    by ratio, of the gap between AlexNet's skew of 0.61 and Inception v3's of 0.138. The paper learns skew from
    the network traffic of a profiled run; here it is in the catalogue of models. A job whose model is unknown
    counts as not skewed.
    """

    def __init__(self, skew: float) -> None:
        self._skew: float = skew  # from which on gangs must stay together
        self._known: dict[str, bool] = {}

    def must_consolidate(self, job: Job) -> bool:
        """Whether the gang has to stay together."""
        found = self._known.get(job.model)
        if found is None:
            profile = self.view.profile(job)
            found = profile is not None and profile.skew >= self._skew
            self._known[job.model] = found
        return found

    def kind(self, job: Job) -> int:
        return 1 if self.must_consolidate(job) else 0

    def widest(self, job: Job, cluster: Cluster) -> i64:
        if self.must_consolidate(job):
            return cluster.topology.closest_tier(job.gpus, job.group)
        return cluster.root

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        for tier in range(self.widest(job, cluster) + 1):
            found = best_fit(cluster, tier, job.gpus, job.group)
            if found is not None:
                return found
        return None
