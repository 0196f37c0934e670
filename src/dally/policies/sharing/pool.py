"""A pool at work: GPUs of some types, and who runs on them."""

from __future__ import annotations

from dally.cluster.capacity import Cluster
from dally.cluster.delta import pool_topology
from dally.cluster.links import Network
from dally.cluster.partitions import Partition
from dally.cluster.topology import Topology
from dally.model import Allocation, Job
from dally.perf.gpu_types import MIX


class Pool:
    """What a policy of this pool takes for the cluster: the same machines, of which only the pool's have GPUs."""

    def __init__(
        self, number: int, name: str, kind: int, cluster: Cluster, whole: bool, partition: Partition | None = None
    ) -> None:
        """`whole`: the pool is the cluster itself, which the engine hands us and keeps the books of."""
        self.number = number
        self.name = name  # its type of GPU, or several joined
        self.kind = kind  # the number of that name: quotas are by type, wherever the machines are
        self.whole = whole
        self.partition = "" if partition is None else partition.name
        self.types = set(name.split(MIX))
        self.cluster = cluster

    @property
    def gpus(self) -> int:
        """GPUs of machines that are up."""
        topology, down = self.cluster.topology, self.cluster.down
        if 1 not in down:
            return topology.total_gpus()
        return sum(int(gpus) for gpus, is_down in zip(topology.gpus[0], down, strict=True) if not is_down)

    def has(self, machine: int) -> bool:
        """Whether the machine is one of the pool's."""
        return bool(self.cluster.topology.gpus[0][machine])

    def take(self, job: Job, allocation: Allocation) -> None:
        """The cluster gave these GPUs to the job; machines may be in several pools."""
        if self.whole:
            return
        if all(self.has(machine) for machine in allocation.machines):
            self.cluster.take(job, allocation)
        else:
            self._change(allocation, -1)

    def give_back(self, job: Job, allocation: Allocation) -> None:
        """And has them back."""
        if self.whole:
            return
        if int(job.index) in self.cluster.running:
            self.cluster.give_back(job, allocation)
        else:
            self._change(allocation, 1)

    def _change(self, allocation: Allocation, sign: int) -> None:
        for machine, gpus in allocation.parts():
            if self.has(machine):
                self.cluster.change(machine, sign * gpus)

    def withhold(self, machine: int, gpus: int) -> None:
        """So many of its free GPUs are not offered; below 0: they are again."""
        if not self.whole and self.has(machine):
            self.cluster.change(machine, -gpus)

    def fail(self, machine: int) -> None:
        if not self.whole and self.has(machine):
            self.cluster.fail(machine)

    def repair(self, machine: int) -> None:
        if not self.whole and self.has(machine):
            self.cluster.repair(machine)


def make_pools(topology: Topology, network: Network | None, mixed: list[str]) -> list[Pool]:
    """One pool a type, then those that jobs ask for which may mix types, then those of each partition."""
    names = types_of(topology)
    if len(names) > 1:
        names += mixed
    elif not topology.partitions:
        return [Pool(0, names[0], 0, Cluster(topology, network), True)]
    found: list[Pool] = []
    for partition in (None, *topology.partitions):
        for kind, name in enumerate(names):
            part = pool_topology(topology, set(name.split(MIX)), partition)
            if part.total_gpus() > 0:
                found.append(Pool(len(found), name, kind, Cluster(part, network), False, partition))
    return found


def kinds_of(pools: list[Pool]) -> list[str]:
    """The names of the pools by kind."""
    return list(dict.fromkeys(pool.name for pool in pools))


def pool_of(pools: list[Pool], allocation: Allocation) -> Pool:
    """The smallest pool that has all of these GPUs."""
    machines = list(allocation.machines)
    fitting = [pool for pool in pools if all(pool.has(machine) for machine in machines)]
    return min(fitting, key=lambda pool: len(pool.types))


def types_of(topology: Topology) -> list[str]:
    """The types of the cluster's GPUs in the order of its machines; [""] where none is stated."""
    return list(dict.fromkeys(topology.gpu_types))
