"""The cluster as a scheduler sees it: the topology and what is free in it right now."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.feasibility.feasibility import Feasibility
from dally.cluster.feasibility.signatures import Signatures
from dally.cluster.free_gpus import FreeGpus
from dally.cluster.links import Links, Network, connect
from dally.cluster.topology import Topology, grid
from dally.cluster.trial import Trial
from dally.errors import PolicyError
from dally.model import Allocation, Job


class Cluster(FreeGpus):
    """What is free, who runs, and which machines are down.

    Policies read it and try things out in a `trial`; the engine calls `take`, `give_back`, `fail` and `repair`.
    """

    __slots__ = ("_trial", "down", "jobs_on", "network", "running")

    def __init__(self, topology: Topology, network: Network | None = None) -> None:
        super().__init__(topology)
        self.network: Network | None = network  # None: nothing is known of the links
        self.down: vec[i64] = vec[i64]([0] * topology.machine_count())
        self.running: dict[int, Job] = {}  # by index, in order of start
        self.jobs_on: list[list[Job]] = [[] for _ in range(topology.machine_count())]
        self._trial: Trial | None = None  # the latest

    # Domains' free GPUs are shared by `free` and the buckets, which pickle would not notice: only the machines'
    # are kept, and who runs where.
    def __reduce__(self) -> tuple[object, ...]:
        parts = (self.free[0], self.down, self.running, self.jobs_on, self.feasibility)
        return (Cluster, (self.topology, self.network), parts)

    def __setstate__(
        self, parts: tuple[vec[i64], vec[i64], dict[int, Job], list[list[Job]], Feasibility | None]
    ) -> None:
        free, self.down, self.running, self.jobs_on, self.feasibility = parts
        if self.feasibility is not None:
            self.show_all()
            return
        for machine in range(len(free)):
            self.change(machine, free[machine] - self.free[0][machine])

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

    def constrain(self, signatures: Signatures) -> None:
        """From now on jobs have constraints; those that run are known by their signatures."""
        fit = Feasibility(self.topology, signatures)
        for machine in range(len(self.down)):
            fit.set_aside(machine, fit.free[machine] - self.free[0][machine])
        for job in self.running.values():
            allocation = job.allocation
            assert allocation is not None
            for part in range(len(allocation.machines)):
                fit.set_aside(allocation.machines[part], -allocation.gpus[part])
            fit.shift(allocation, job.signature, -1)
        self.feasibility = fit

    def trial(self) -> Trial:
        """A trial: what is taken and given back in it shows in the cluster's counts until it is undone."""
        self._check_no_trial("another trial")
        self._trial = Trial(self)
        return self._trial

    def _check_no_trial(self, what: str) -> None:
        if self._trial is not None:
            if self._trial.open:
                raise PolicyError(f"{what} while a trial is open: undo it first")
            self._trial = None

    def take(self, job: Job, allocation: Allocation) -> None:
        """Hand these GPUs to the job, whole gang or not at all."""
        if self._trial is not None:
            self._check_no_trial(f"job {job.job_id} is placed")
        if allocation.total() != job.gpus:
            raise PolicyError(f"job {job.job_id} asks for {int(job.gpus)} GPUs, was given {allocation!r}")
        if self.feasibility is not None:
            self._take_all(job, allocation)
            return
        machines = allocation.machines
        for part in range(len(machines)):
            machine = machines[part]
            gpus = allocation.gpus[part]
            if machine < 0 or machine >= len(self.down) or gpus < 1 or self.free[0][machine] < gpus:
                self._undo(allocation, part)
                raise PolicyError(f"job {job.job_id}: {allocation!r} takes GPUs that are not free")
            self.change(machine, -gpus)
        self._enter(job, allocation)

    def _take_all(self, job: Job, allocation: Allocation) -> None:
        """With all that goes with the GPUs: whether that is free was asked before, or its backend knows better."""
        fit = self.feasibility
        assert fit is not None
        machines = allocation.machines
        for part in range(len(machines)):
            machine = machines[part]
            gpus = allocation.gpus[part]
            if machine < 0 or machine >= len(self.down) or gpus < 1 or fit.free[machine] < gpus:
                raise PolicyError(f"job {job.job_id}: {allocation!r} takes GPUs that are not free")
        self.shift(allocation, job.signature, -1)
        self._enter(job, allocation)

    def _enter(self, job: Job, allocation: Allocation) -> None:
        for machine in allocation.machines:
            self.jobs_on[machine].append(job)
        self.running[int(job.index)] = job

    def give_back(self, job: Job, allocation: Allocation) -> None:
        """Take the job's GPUs from it."""
        if self._trial is not None:
            self._check_no_trial(f"job {job.job_id} loses its GPUs")
        if self.feasibility is not None:
            self.shift(allocation, job.signature, 1)
        else:
            self._undo(allocation, len(allocation.machines))
        for machine in allocation.machines:
            self.jobs_on[machine].remove(job)
        del self.running[int(job.index)]

    def take_part(self, job: Job, part: Allocation, sign: i64) -> None:
        """A job that runs beyond these machines too takes GPUs here (-1), or gives them back (1)."""
        if self.feasibility is not None:
            self.shift(part, job.signature, sign)
            return
        for place in range(len(part.machines)):
            self.change(part.machines[place], sign * part.gpus[place])

    def fail(self, machine: i64) -> None:
        """Take a machine, already emptied of jobs, out of service."""
        self._check_no_trial("a machine fails")
        self.down[machine] = 1
        self.set_aside(machine, self.all_free_on(machine))

    def repair(self, machine: i64) -> None:
        """Bring an empty machine back."""
        self._check_no_trial("a machine is repaired")
        self.down[machine] = 0
        self.set_aside(machine, -self.topology.gpus[0][machine])

    def _undo(self, allocation: Allocation, parts: i64) -> None:
        for part in range(parts):
            self.change(allocation.machines[part], allocation.gpus[part])
