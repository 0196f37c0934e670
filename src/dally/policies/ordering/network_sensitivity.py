"""The order of the Dally paper: jobs that lose most to the network come first."""

from __future__ import annotations

from dally.model import Job
from dally.policies.ordering.base import Order


class NetworkSensitivity(Order):
    """By the share of its running time that a job spent computing; 0 for jobs that never ran.

    Sharma et al., GPU Cluster Scheduling for Network-Sensitive Deep Learning (arXiv 2401.16492):
    Nw_sens = work done ÷ (running time ÷ ideal completion time), which is that share.
    """

    def key(self, job: Job, now: float) -> float:
        run_s = job.run_s(now)
        return job.computed_s(now) / run_s if run_s > 0.0 else 0.0
