"""Orders that are one line each: by submission, service, turns, or network sensitivity."""

from __future__ import annotations

from typing import Final

from dally.model import RUNNING, Job
from dally.policies.ordering.base import Order


class SubmitOrder(Order):
    """By submit time; a job that lost its GPUs keeps its old place."""

    def key(self, job: Job, now: float) -> float:
        return job.submit_s


class LeastAttained(Order):
    """By GPU-seconds held so far, restarts included."""

    def key(self, job: Job, now: float) -> float:
        return job.run_s(now) * float(job.gpus)


class RoundRobin(Order):
    """The job that has waited longest comes first; the running job that has run longest comes last."""

    def key(self, job: Job, now: float) -> float:
        return 2.0 * now - job.placed_s if job.status == RUNNING else job.lost_s


DIGITS: Final = 9  # of a score


class NetworkSensitivity(Order):
    """By the share of its running time that a job spent computing; 0 for jobs that never ran.

    Sharma et al., GPU Cluster Scheduling for Network-Sensitive Deep Learning (arXiv 2401.16492): Nw_sens = work
    done ÷ (running time ÷ ideal completion time), which is that share. The share is rounded, so that floating-point
    noise does not break ties.
    """

    def key(self, job: Job, now: float) -> float:
        run_s = job.run_s(now)
        return round(job.computed_s(now) / run_s, DIGITS) if run_s > 0.0 else 0.0
