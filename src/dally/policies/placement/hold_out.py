"""Waiting for a better place: a gang declines one until it has waited as long as it would lose there."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Allocation, Job
from dally.policies.base import Param
from dally.policies.placement.base import Placement
from dally.policies.view import View

PATIENCE: Final = Param(
    "patience", 1.0, "a gang declines a place until it has waited so many times as long as it would lose there"
)


@mypyc_attr(allow_interpreted_subclasses=True)
class HoldOut(Placement):
    """Takes the place that the wrapped placement finds once waiting for a better one has cost as much as it saves.

    What a place costs is the predicted time of the job times how much slower it would be there, beside today's
    traffic, than at its closest place. Time counts from when the gang was first offered GPUs. Whoever waits so
    never loses more than twice what the best choice would have lost, for itself. A job without a prediction takes
    what it gets.
    """

    def __init__(self, inner: Placement, patience: float) -> None:
        self._inner: Placement = inner
        self._patience: float = patience
        self._offered_s: dict[int, float] = {}  # when each waiting gang was first offered GPUs
        self._models: dict[str, int] = {}  # numbered as they come
        self._wakeup_s: float = INFINITY

    def begin(self, view: View) -> None:
        super().begin(view)
        self._inner.begin(view)

    def kind(self, job: Job) -> int:
        """By model: what is a bad place for one may do for another."""
        return self._models.setdefault(job.model, len(self._models) % 1000)

    def begin_pass(self) -> None:
        self._wakeup_s = INFINITY

    def wakeup_s(self) -> float:
        return self._wakeup_s

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        found = self._inner.place(job, now, cluster)
        if found is None:
            return None
        since_s = self._offered_s.setdefault(int(job.index), now)
        ready_s = since_s + self._patience * self._loss_s(job, found)
        if ready_s > now:
            self._wakeup_s = min(self._wakeup_s, ready_s)
            return None
        del self._offered_s[int(job.index)]
        return found

    def _loss_s(self, job: Job, allocation: Allocation) -> float:
        loss = self.view.slowdown(job, allocation)[0] - self.view.best(job)
        return max(job.predicted_s, 0.0) * loss if loss > 0.0 else 0.0
