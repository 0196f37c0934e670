"""The cluster as a scheduler sees it: the topology and what is free in it right now."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.bitset import Buckets
from dally.cluster.links import Links, Network, connect
from dally.cluster.topology import Topology, grid
from dally.errors import PolicyError
from dally.model import Allocation, Job


class Cluster:
    """Free GPUs of every domain, in buckets per tier; who runs; which machines are down.

    Policies read it; the engine calls `take`, `give_back`, `fail` and `repair`.
    """

    __slots__ = (
        "children", "down", "free", "free_gpus", "jobs_on", "network", "root",
        "running", "tier_buckets", "topology",
    )  # fmt: skip

    def __init__(self, topology: Topology, network: Network | None = None) -> None:
        self.topology: Topology = topology
        self.network: Network | None = network  # None: nothing is known of the links
        self.root: i64 = len(topology.tiers) - 1
        self.free_gpus: i64 = topology.total_gpus()
        self.free: list[vec[i64]] = [vec[i64](gpus) for gpus in topology.gpus]
        self.down: vec[i64] = vec[i64]([0] * topology.machine_count())
        self.running: dict[int, Job] = {}  # by index, in order of start
        self.jobs_on: list[list[Job]] = [[] for _ in range(topology.machine_count())]
        # Which domain of a tier fits best, and which child of a domain does.
        self.tier_buckets: list[Buckets] = [Buckets(self.free[tier]) for tier in range(self.root)]
        self.children: list[list[Buckets]] = [[]]
        for tier in range(1, self.root + 1):
            below = self.free[tier - 1]
            rows: list[Buckets] = []
            for domain in range(len(topology.names[tier])):
                first = topology.first_children[tier][domain]
                count = topology.child_counts[tier][domain]
                rows.append(Buckets(vec[i64](below[first : first + count])))
            self.children.append(rows)

    # Domains' free GPUs are shared by `free` and the buckets, which pickle would not notice: only the machines'
    # are kept, and who runs where.
    def __reduce__(self) -> tuple[object, ...]:
        books = (self.free[0], self.down, self.running, self.jobs_on)
        return (Cluster, (self.topology, self.network), books)

    def __setstate__(self, books: tuple[vec[i64], vec[i64], dict[int, Job], list[list[Job]]]) -> None:
        free, self.down, self.running, self.jobs_on = books
        for machine in range(len(free)):
            self._change(machine, free[machine] - self.free[0][machine])

    @staticmethod
    def grid(
        racks: int,
        machines: int,
        gpus: int,
        intra_gbps: float = 0.0,
        nic_gbps: float = 0.0,
        uplink_gbps: float = 0.0,
        intra_latency_s: float = 5e-7,
        nic_latency_s: float = 2.5e-6,
        uplink_latency_s: float = 5e-6,
        ideal: bool = False,
    ) -> Cluster:
        """An empty cluster of racks × machines per rack × GPUs per machine.

        Bandwidths are GB/s each direction: per GPU, per machine, per rack (0: as much as its machines).
        Without them the cluster has no network. Latencies are per hop.
        """
        topology = grid(racks, machines, gpus)
        if intra_gbps <= 0.0 and nic_gbps <= 0.0 and uplink_gbps <= 0.0:
            return Cluster(topology)
        links = Links(
            "grid",
            fabric_gbps=intra_gbps,
            fabric_latency_s=intra_latency_s,
            nic_gbps=nic_gbps,
            nic_latency_s=nic_latency_s,
            uplink_gbps=uplink_gbps,
            uplink_latency_s=uplink_latency_s,
            ideal=ideal,
        )
        return Cluster(topology, connect(topology, links))

    def free_on(self, machine: i64) -> i64:
        """Free GPUs of one machine."""
        return self.free[0][machine]

    def best_domain(self, tier: i64, gpus: i64) -> i64:
        """The domain of that tier with the fewest free GPUs that still has `gpus`, or -1."""
        if tier == self.root:
            return 0 if self.free_gpus >= gpus else -1
        return self.tier_buckets[tier].best_fit(gpus)

    def take(self, job: Job, allocation: Allocation) -> None:
        """Hand these GPUs to the job, whole gang or not at all."""
        if allocation.total() != job.gpus:
            raise PolicyError(f"job {job.job_id} asks for {int(job.gpus)} GPUs, was given {allocation!r}")
        machines = allocation.machines
        for part in range(len(machines)):
            machine = machines[part]
            gpus = allocation.gpus[part]
            if machine < 0 or machine >= len(self.down) or gpus < 1 or self.free[0][machine] < gpus:
                self._undo(allocation, part)
                raise PolicyError(f"job {job.job_id}: {allocation!r} takes GPUs that are not free")
            self._change(machine, -gpus)
        for machine in machines:
            self.jobs_on[machine].append(job)
        self.running[int(job.index)] = job

    def give_back(self, job: Job, allocation: Allocation) -> None:
        """Take the job's GPUs from it."""
        self._undo(allocation, len(allocation.machines))
        for machine in allocation.machines:
            self.jobs_on[machine].remove(job)
        del self.running[int(job.index)]

    def fail(self, machine: i64) -> None:
        """Take a machine, already emptied of jobs, out of service."""
        self.down[machine] = 1
        self._change(machine, -self.free[0][machine])

    def repair(self, machine: i64) -> None:
        """Bring an empty machine back."""
        self.down[machine] = 0
        self._change(machine, self.topology.gpus[0][machine])

    def _undo(self, allocation: Allocation, parts: i64) -> None:
        for part in range(parts):
            self._change(allocation.machines[part], allocation.gpus[part])

    def _change(self, domain: i64, gpus: i64) -> None:
        """Add GPUs to a machine and to every domain above it."""
        for tier in range(self.root):
            parent = self.topology.parents[tier][domain]
            free = self.free[tier][domain] + gpus
            self.tier_buckets[tier].move(domain, free)
            first = self.topology.first_children[tier + 1][parent]
            self.children[tier + 1][parent].move(domain - first, free)
            domain = parent
        self.free_gpus += gpus
        self.free[self.root][0] = self.free_gpus
