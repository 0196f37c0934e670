"""What an order is."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Job
from dally.policies.part import Part
from dally.policies.prediction.base import Predictor


@mypyc_attr(allow_interpreted_subclasses=True)
class Order(Part):
    """Ranks jobs, lowest key first.

    A waiting job's key stays as it was when it began to wait. A running job's key may only fall
    while it runs (it gets closer to done), or stand still: preemption at every event relies on it.
    Where that does not hold, `changed` must name the jobs whose keys moved.
    """

    predictor: Predictor = Predictor()  # of the durations it ranks by, if it does

    def key(self, job: Job, now: float) -> float:
        raise NotImplementedError

    def tie(self, job: Job) -> float:
        """Breaks equal keys; then order of submission decides."""
        return 0.0

    def changed(self, now: float, cluster: Cluster) -> list[Job]:
        """Jobs, waiting or running, whose rank changed by itself since this was last asked."""
        return []

    def wakeup_s(self) -> float:
        """When the next rank changes by itself."""
        return INFINITY

    # What happens to jobs, for orders that keep books.
    def queued(self, job: Job, now: float) -> None:
        """The job was submitted, or lost its GPUs, and waits."""

    def started(self, job: Job, now: float) -> None:
        """The job got GPUs."""

    def rerated(self, job: Job, now: float) -> None:
        """A running job's speed changed."""

    def stopped(self, job: Job, now: float) -> None:
        """The job gave its GPUs back."""

    def withdrawn(self, job: Job, now: float) -> None:
        """The job left the queue without GPUs; `queued` tells of it again unless it was cancelled."""

    def finished(self, job: Job, now: float) -> None:
        """The job is done: its duration is known now."""
