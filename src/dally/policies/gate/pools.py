"""Pools: GPUs of some types, who runs on them, and which a job waits for: a slow type now or a faster one later."""

from __future__ import annotations

from typing import NamedTuple

from dally.cluster.capacity import Cluster
from dally.cluster.delta import pool_topology
from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.model import Allocation, Job
from dally.perf.gpu_types import MIX
from dally.pickles import picklable
from dally.policies.placement.best_fit import BestFit
from dally.policies.view import View
from dally.sizes import rate_here

FIRST_GUESS_S = 3600.0  # of what a job has left, until some have finished
WORTH = 2.0  # a move to a faster type must save so many times its restart


class Pool:
    """What a policy of this pool takes for the cluster: the same machines, of which only the pool's have GPUs."""

    def __init__(self, number: int, name: str, kind: int, cluster: Cluster, whole: bool) -> None:
        """`whole`: the pool is the cluster itself, which the engine hands us and keeps the books of."""
        self.number: int = number
        self.name: str = name  # its type of GPU, or several joined
        self.kind: int = kind  # the number of that name: quotas are by type, wherever the machines are
        self.whole: bool = whole
        self.types: set[str] = set(name.split(MIX))
        self.cluster: Cluster = cluster
        self.gpus: int = cluster.topology.total_gpus()  # of machines that are up

    def count(self) -> None:
        """Machines failed or were repaired."""
        self.gpus = 0
        for machine in range(len(self.cluster.down)):
            if not self.cluster.down[machine]:
                self.gpus += int(self.cluster.topology.gpus[0][machine])

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
            self._change(job, allocation, -1)

    def give_back(self, job: Job, allocation: Allocation) -> None:
        """And has them back."""
        if self.whole:
            return
        if int(job.index) in self.cluster.running:
            self.cluster.give_back(job, allocation)
        else:
            self._change(job, allocation, 1)

    def _change(self, job: Job, allocation: Allocation, sign: int) -> None:
        """A job that is not wholly in the pool takes GPUs of it (-1), or gives them back."""
        inside = Allocation(0)
        for machine, gpus in allocation.parts():
            if self.has(machine):
                inside.add(machine, gpus)
        self.cluster.take_part(job, inside, sign)

    def set_aside(self, machine: int, gpus: int) -> None:
        """So many of its free GPUs are not offered; below 0: they are again."""
        if not self.whole and self.has(machine):
            self.cluster.set_aside(machine, gpus)

    def fail(self, machine: int) -> None:
        if not self.whole and self.has(machine):
            self.cluster.fail(machine)

    def repair(self, machine: int) -> None:
        if not self.whole and self.has(machine):
            self.cluster.repair(machine)


def make_pools(topology: Topology, network: Network | None, mixed: list[str]) -> list[Pool]:
    """One pool a type, then those that jobs ask for which may mix types. Partitions are constraints of jobs."""
    names = types_of(topology)
    if len(names) == 1:
        return [Pool(0, names[0], 0, Cluster(topology, network), True)]
    result: list[Pool] = []
    for kind, name in enumerate([*names, *mixed]):
        part = pool_topology(topology, set(name.split(MIX)))
        if part.total_gpus() > 0:
            result.append(Pool(len(result), name, kind, Cluster(part, network), False))
    return result


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


class PoolDemand(NamedTuple):
    """What stands in front of a pool."""

    pool: Pool
    view: View
    demanded: int  # GPUs held and asked for
    free: int  # GPUs that no job holds or could start on


class Lengths:
    """How long jobs of each size ran, as a mean that forgets: all that is known of those to come."""

    def __init__(self) -> None:
        self._mean_s: dict[int, float] = {}  # by the number of bits of the gang's size

    def learn(self, job: Job) -> None:
        """The job has finished."""
        size = int(job.gpus).bit_length()
        before_s = self._mean_s.get(size, job.work_s)
        self._mean_s[size] = before_s + (job.work_s - before_s) / 16.0

    def left_s(self, job: Job, had_s: float) -> float:
        """What it is expected to have left: the mean, or as much as it has had if that is more."""
        return max(self._mean_s.get(int(job.gpus).bit_length(), FIRST_GUESS_S), had_s)


def wait_s(standing: PoolDemand, job: Job, left_s: float) -> float:
    """How long a job that joins them waits: until what is wanted above the pool's size has run."""
    gpus = standing.pool.gpus
    return max(0, standing.demanded + int(job.gpus) - gpus) * left_s / gpus if gpus else float("inf")


def finish_s(standing: PoolDemand, job: Job, left_s: float) -> float:
    """When it would be done there, from now."""
    return wait_s(standing, job, left_s) + standing.view.best(job) * left_s


def soonest(standings: list[PoolDemand], job: Job, left_s: float, moves: bool) -> Pool:
    """The pool in which the job would be done first; the fastest of equals, then the first.

    If it `moves` to faster GPUs as they become free, it waits for none while others are free.
    """
    fitting = [one for one in standings if one.pool.cluster.closest_tier(job) >= 0]
    fitting = fitting or standings
    if moves:
        fitting = [one for one in fitting if one.free >= job.gpus] or fitting
    return min(fitting, key=lambda one: (finish_s(one, job, left_s), one.view.best(job), one.pool.number)).pool


def is_worth_moving(own: float, then: float, left_s: float, cost_s: float) -> bool:
    """Whether a running job gains by other GPUs what its restart costs, and as much again; by slowdowns."""
    return (own - then) * left_s > WORTH * cost_s


class MoveUp(NamedTuple):
    """A gang that moves to another pool, and what each of its GPUs there gains by it."""

    job: Job
    pool: Pool
    allocation: Allocation
    saved_s: float


def best_move(job: Job, here: View, open_to: list[PoolDemand], lengths: Lengths, now: float) -> MoveUp | None:
    """The move to a pool with enough free GPUs that saves most, if it pays for the gang's restart."""
    result: MoveUp | None = None
    own = 1.0 / rate_here(job)
    left_s = lengths.left_s(job, job.done_s(now))
    cost_s = here.restart_s(job) + here.at_risk_s(job, now)
    for standing in open_to:
        if standing.view.best(job) >= own or standing.free < job.gpus:
            continue
        allocation = BestFit().place(job, now, standing.pool.cluster)
        if allocation is None:
            continue
        slowdown, inflicted = standing.view.slowdown(job, allocation)
        then = slowdown + inflicted
        saved_s = ((own - then) * left_s - cost_s) / float(job.gpus)
        if is_worth_moving(own, then, left_s, cost_s) and (result is None or saved_s > result.saved_s):
            result = MoveUp(job, standing.pool, allocation, saved_s)
    return result


picklable(Pool, 0, "", 0, Cluster.grid(1, 1, 1), True)
