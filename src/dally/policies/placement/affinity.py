"""Gandiva's placement: machines that run jobs of one size take more of that size."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit


@mypyc_attr(allow_interpreted_subclasses=True)
class AffinityPlacement(Placement):
    """A machine of the same affinity, else an empty one, else any; larger gangs take whole machines anywhere.

    Xiao et al., Gandiva, OSDI 2018. A machine's affinity is the size of the job that has been on it longest.
    A gang that fits a machine is never split. Among machines of equal standing the fullest one is taken.
    """

    def widest(self, job: Job, cluster: Cluster) -> i64:
        return 0 if cluster.topology.closest_tier(job.gpus, job.group) == 0 else cluster.root

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        if self.widest(job, cluster) == 0:
            return self._on_one(job, cluster)
        if job.group > 1:
            return best_fit(cluster, cluster.root, job.gpus, job.group)
        return emptiest_machines(cluster, job.gpus) if cluster.free_gpus >= job.gpus else None

    def _on_one(self, job: Job, cluster: Cluster) -> Allocation | None:
        machines = cluster.tier_buckets[0]
        best: i64 = -1
        best_standing: i64 = 3
        machine = machines.best_fit(job.gpus)
        while machine >= 0 and best_standing > 0:  # the fullest first
            jobs = cluster.jobs_on[machine]
            standing: i64 = 1 if len(jobs) == 0 else 0 if jobs[0].gpus == job.gpus else 2
            if standing < best_standing:
                best = machine
                best_standing = standing
            machine = machines.next_fit(machine)
        if best < 0:
            return None
        allocation = Allocation(0)
        allocation.add(best, job.gpus)
        return allocation


def emptiest_machines(cluster: Cluster, gpus: i64) -> Allocation:
    """That many free GPUs, which there must be, on the machines that have most, whatever rack they are in."""
    machines = cluster.tier_buckets[0]
    allocation = Allocation(cluster.root)
    machine = machines.emptiest()
    while True:
        part = machines.free[machine]
        if part > gpus:
            part = gpus
        allocation.add(machine, part)
        gpus -= part
        if gpus == 0:
            return allocation
        machine = machines.next_emptiest(machine)
