"""The order of the Dally paper: jobs that lose most to the network come first."""

from __future__ import annotations

from typing import Final

from dally.model import Job
from dally.policies.ordering.base import Order

DIGITS: Final = 9  # of a score


class NetworkSensitivity(Order):
    """By the share of its running time that a job spent computing; 0 for jobs that never ran.

    Sharma et al., GPU Cluster Scheduling for Network-Sensitive Deep Learning (arXiv 2401.16492):
    Nw_sens = work done ÷ (running time ÷ ideal completion time), which is that share. Rounded, so that
    equal scores are equal whatever floats make of them, and ties are broken as they should be.
    """

    def key(self, job: Job, now: float) -> float:
        run_s = job.run_s(now)
        return round(job.computed_s(now) / run_s, DIGITS) if run_s > 0.0 else 0.0
