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
        best: i64 = -1
        best_standing: i64 = 3
        for machine in range(len(cluster.down)):
            free = cluster.free[0][machine]
            if free < job.gpus:
                continue
            jobs = cluster.jobs_on[machine]
            standing: i64 = 1 if len(jobs) == 0 else 0 if jobs[0].gpus == job.gpus else 2
            if standing < best_standing or (standing == best_standing and free < cluster.free[0][best]):
                best = machine
                best_standing = standing
        if best < 0:
            return None
        allocation = Allocation(0)
        allocation.add(best, job.gpus)
        return allocation


def emptiest_machines(cluster: Cluster, gpus: i64) -> Allocation:
    """That many free GPUs on the machines that have most, whatever rack they are in."""
    rooms = [(-int(free), machine) for machine, free in enumerate(cluster.free[0]) if free > 0]
    rooms.sort()
    allocation = Allocation(cluster.root)
    for free, machine in rooms:
        part = min(-free, gpus)
        allocation.add(machine, part)
        gpus -= part
        if gpus == 0:
            break
    return allocation
