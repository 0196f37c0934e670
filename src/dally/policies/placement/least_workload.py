"""LWF-κ: least workload first, machine by machine for gangs of more than κ GPUs."""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.base import Param
from dally.policies.placement.base import Placement

KAPPA: Final = Param("kappa", 1, "gangs of at most this many GPUs are spread, larger ones go machine by machine")


class LeastWorkload(Placement):
    """A gang takes the least loaded machine that holds all of it, else all of the least loaded one, and so on.

    Wang et al. (arXiv 2002.10105): a gang of more than κ GPUs is placed machine by machine, least remaining
    work first, so that it uses few machines. A machine that holds all GPUs that are still to be placed comes
    before machines that do not: a few GPUs of idler machines would spread the gang, against the purpose of the
    rule. A gang of at most κ GPUs takes the least loaded GPUs anywhere. In the paper jobs share GPUs, and a
    GPU's load is the remaining work of its jobs. Here GPUs are exclusive and all free GPUs are idle, so the
    choice follows the load of their machines, including the load that the gang adds: it spreads. A machine's
    load is the sum over its GPUs of the seconds until their jobs finish at their present speed. The paper
    reports up to 1.59 times better than first fit, on 64 GPUs with 10 Gb Ethernet. It does not consider racks,
    and neither does this rule: a gang larger than any free machine goes to the least loaded machines of any
    rack, so it collapses on oversubscribed uplinks. The authors' form does so there too; `tier=closest` is our
    addition, which keeps its order and its choice of machines within one domain.
    """

    def __init__(self, kappa: i64 = 1) -> None:
        self.kappa: i64 = kappa

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        if cluster.free_gpus < job.gpus:
            return None
        loads = machine_loads(cluster, now)
        taken = vec[i64]([0] * len(loads))
        remaining_s = job.remaining_s(now)
        left = job.gpus
        group = cluster.group_of(job)
        while left > 0:
            machine: i64 = -1
            if job.gpus > self.kappa:
                machine = _least_loaded(cluster.free[0], taken, loads, left)
            if machine < 0:
                machine = _least_loaded(cluster.free[0], taken, loads, group)
            if machine < 0:
                return None  # free GPUs, but not in groups
            room = cluster.free[0][machine] - taken[machine]
            part = group if job.gpus <= self.kappa else room - room % group
            if part > left:
                part = left
            taken[machine] += part
            loads[machine] += remaining_s * float(part)
            left -= part
        allocation = Allocation(cluster.root)  # the engine works out the tier
        for place in range(len(taken)):
            if taken[place] > 0:
                allocation.add(place, taken[place])
        return allocation


def machine_loads(cluster: Cluster, now: float) -> vec[float]:
    """GPU-seconds of work left on every machine."""
    loads = vec[float]([0.0] * len(cluster.down))
    for job in cluster.running.values():
        allocation = job.allocation
        assert allocation is not None
        left_s = job.expected_finish_s() - now
        for part in range(len(allocation.machines)):
            loads[allocation.machines[part]] += left_s * float(allocation.gpus[part])
    return loads


def _least_loaded(free: vec[i64], taken: vec[i64], loads: vec[float], gpus: i64) -> i64:
    """The machine with the least load that still has so many GPUs; the lowest number among equals; or -1."""
    best: i64 = -1
    for machine in range(len(free)):
        if free[machine] - taken[machine] >= gpus and (best < 0 or loads[machine] < loads[best]):
            best = machine
    return best
