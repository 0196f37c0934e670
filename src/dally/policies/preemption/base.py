"""What a preemption rule is."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.model import INFINITY, Job
from dally.policies.ordering.base import Order
from dally.policies.part import Part


@mypyc_attr(allow_interpreted_subclasses=True)
class Preemption(Part):
    """Hands out the running jobs that may lose their GPUs now, worst-ranked first."""

    lease_s: float = INFINITY  # for how long GPUs are granted

    def begin_pass(self, order: Order, now: float, tenant: i64 = 0) -> None:
        """A scheduling pass begins, in which that tenant's jobs alone can be preempted (policies/gate)."""

    def worst(self, order: Order, now: float) -> Job | None:
        """The worst-ranked job that may be preempted and was not set aside yet."""
        return None

    def wakeup_s(self, now: float, waiting: bool) -> float:
        """When running jobs become preemptible by themselves."""
        return INFINITY

    def reranked(self, job: Job, order: Order, now: float) -> None:
        """A running job's rank has changed by itself."""

    def set_aside(self, job: Job) -> None:
        """The job that `worst` named is being weighed against those who wait."""

    def keep(self, job: Job, order: Order, now: float) -> None:
        """A job set aside keeps its GPUs after all."""

    def end_pass(self) -> None:
        """The pass is over."""

    def queued(self, job: Job, now: float) -> None:
        """The job was submitted, or lost its GPUs, and waits."""

    def started(self, job: Job, order: Order, now: float) -> None:
        """The job runs."""

    def stopped(self, job: Job) -> None:
        """The job runs no more."""

    def lease_ended(self, job: Job) -> None:
        """The job's lease is over."""


class NoPreemption(Preemption):
    """A running job runs to its end."""
