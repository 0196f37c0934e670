"""How many GPUs jobs of each signature could have on each machine now."""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.feasibility.signatures import CPUS, MEMORY, PARTS, SLACK, Signature, Signatures
from dally.cluster.topology import Topology, grid
from dally.model import Allocation
from dally.pickles import picklable

UNLIMITED: Final = 1 << 60


class Feasibility:
    """The books of a cluster's machines: free GPUs, idle resources, and who has a machine to itself.

    What a job could have is worked out from these for the signature in focus. Trials change them too, and back.
    """

    __slots__ = (
        "_largest_of", "_licences", "_version", "alone", "blocked", "free", "free_gpus", "idle", "jobs", "others",
        "signatures", "taken", "topology", "total",
    )  # fmt: skip

    def __init__(self, topology: Topology, signatures: Signatures) -> None:
        count = topology.machine_count()
        self.topology: Topology = topology
        self.signatures: Signatures = signatures
        self.free: vec[i64] = vec[i64](topology.gpus[0])  # GPUs by machine, whoever may use them,
        self.free_gpus: i64 = topology.total_gpus()  # and in all
        self.total: list[vec[i64]] = []  # by resource and machine, in millionths
        self.idle: list[vec[i64]] = []
        self.taken: list[vec[i64]] = []  # by jobs that we do not know of
        self.jobs: vec[i64] = vec[i64]([0] * count)  # that have GPUs there
        self.alone: vec[i64] = vec[i64]([0] * count)  # of these, jobs that share a machine with no other
        self.others: vec[i64] = vec[i64]([0] * count)  # 1: jobs that we do not know of are there
        self.blocked: vec[i64] = vec[i64]([0] * count)  # trials in which nothing there is to be had
        self._licences: dict[str, float] = {}  # that jobs hold
        self._largest_of: dict[int, vec[i64]] = {}
        self._version: i64 = -1
        signatures.fits.append(self)

    def known(self, number: i64) -> Signature:
        """The signature of that number, all of whose resources are counted."""
        signature = self.signatures.rows[number]
        while len(self.idle) < len(self.signatures.names):
            self._count(len(self.idle))
        return signature

    def _count(self, resource: int) -> None:
        total: vec[i64] = vec[i64]()
        for machine in range(self.topology.machine_count()):
            total = append(total, self._stated(resource, machine))
        self.total.append(total)
        self.idle.append(vec[i64](total))
        self.taken.append(vec[i64]([0] * len(total)))

    def _stated(self, resource: int, machine: int) -> i64:
        """How much of the resource the machine has."""
        capacity = self.topology.capacities[machine]
        if resource == CPUS:
            amount = capacity.cpus
        elif resource == MEMORY:
            amount = capacity.memory_mb
        else:
            resources = capacity.resources
            amount = None if resources is None else resources.get(self.signatures.names[resource], 0.0)
        return UNLIMITED if amount is None else int(amount * PARTS + 0.5)

    # What jobs take.

    def move(self, machine: i64, gpus: i64, number: i64) -> None:
        """A job of that signature gives back so many GPUs of the machine; below 0: it takes them."""
        self.free[machine] += gpus
        self.free_gpus += gpus
        sign: i64 = 1 if gpus > 0 else -1
        self.jobs[machine] -= sign
        if number == 0:
            return
        signature = self.known(number)
        if signature.exclusive:
            self.alone[machine] -= sign
        for place in range(len(signature.resources)):
            amount = signature.per_gpu[place] * gpus + signature.per_node[place] * sign
            idle = self.idle[signature.resources[place]]
            idle[machine] += amount

    def hold_licences(self, number: i64, sign: float) -> bool:
        """A job of that signature takes its licences, or gives them back (-1); whether it has any."""
        licences = self.signatures.rows[number].licences
        for name, count in licences.items():
            self._licences[name] = self._licences.get(name, 0.0) + sign * count
        return len(licences) > 0

    def contends_for_licences(self, number: i64, other: i64) -> bool:
        """Whether jobs of both signatures need licences."""
        rows = self.signatures.rows
        return len(rows[number].licences) > 0 and len(rows[other].licences) > 0

    def set_aside(self, machine: i64, gpus: i64) -> None:
        """So many free GPUs are not to be had, whoever asks; below 0: they are again."""
        self.free[machine] -= gpus
        self.free_gpus -= gpus

    def set_machine(self, machine: i64, taken: dict[str, float], others: bool) -> bool:
        """What jobs that we do not know of have there; whether that is news. The topology states the total."""
        changed = (self.others[machine] == 1) != others
        self.others[machine] = 1 if others else 0
        self.known(0)
        for resource, name in enumerate(self.signatures.names):
            total = self._stated(resource, int(machine))
            amount = int(taken.get(name, 0.0) * PARTS + 0.5)
            more = (total - self.total[resource][machine]) - (amount - self.taken[resource][machine])
            if more != 0:
                self.total[resource][machine] = total
                self.taken[resource][machine] = amount
                self.idle[resource][machine] += more
                changed = True
        if changed:
            self._largest_of.clear()
        return changed

    # What jobs could have.

    def usable(self, number: i64, machine: i64) -> i64:
        """GPUs that a job of that signature could have on the machine now."""
        if self.blocked[machine] > 0 or self.alone[machine] > 0:
            return 0
        free = self.free[machine]
        if number == 0 or free <= 0:
            return free if free > 0 else 0
        signature = self.known(number)
        if signature.open[machine] == 0 or (len(signature.licences) > 0 and not self.has_licences(number)):
            return 0
        if signature.exclusive:
            empty = self.jobs[machine] == 0 and self.others[machine] == 0
            if not empty or free < self.topology.gpus[0][machine]:
                return 0
        return self._fitting(signature, machine, free, self.idle)

    def _fitting(self, signature: Signature, machine: i64, gpus: i64, idle: list[vec[i64]]) -> i64:
        """Of so many GPUs of the machine, those that such a job can use with what is idle of all resources."""
        cap = signature.cap
        if cap > 0 and gpus > cap:
            gpus = cap
        for place in range(len(signature.resources)):
            left = idle[signature.resources[place]][machine] + SLACK - signature.per_node[place]
            if left < 0:
                return 0
            each = signature.per_gpu[place]
            if each > 0 and left < gpus * each:
                gpus = left // each
        return gpus - gpus % signature.group

    def has_licences(self, number: i64) -> bool:
        """Whether as many licences are free as a job of that signature needs."""
        for name, count in self.signatures.rows[number].licences.items():
            total = self.signatures.free_licences.get(name)
            if total is not None and self._licences.get(name, 0.0) + count > total + 1e-9:
                return False
        return True

    def most(self, number: i64, machine: i64) -> i64:
        """GPUs that a job of that signature could have on the empty machine, reservations aside."""
        gpus = self.topology.gpus[0][machine]
        signature = self.known(number)
        if number == 0 or gpus == 0:
            return gpus
        permission = signature.permission
        if signature.problem or (permission is not None and int(machine) not in permission.machines):
            return 0
        return self._fitting(signature, machine, gpus, self.total)

    def closest_tier(self, number: i64, gpus: i64) -> i64:
        """The closest tier where one empty domain holds such a gang of that signature, or -1."""
        largest = self._largest(number)
        for tier in range(len(largest)):
            if largest[tier] >= gpus:
                return tier
        return -1

    def _largest(self, number: i64) -> vec[i64]:
        """The most GPUs that a job of that signature could have in an empty domain of each tier."""
        if self._version != self.signatures.version:
            self._version = self.signatures.version
            self._largest_of.clear()
        largest = self._largest_of.get(int(number))
        if largest is None:
            topology = self.topology
            sizes = [int(self.most(number, machine)) for machine in range(topology.machine_count())]
            largest = topology.largest_of(sizes)
            self._largest_of[int(number)] = largest
        return largest

    # Whether a place is fine.

    def refusal(self, number: i64, allocation: Allocation, held: Allocation | None) -> str:
        """Why a job of that signature cannot have these GPUs, its own counted as free; empty if it can."""
        if number == 0 and held is None:
            return self._short(number, allocation)
        if held is not None:
            self.shift(held, number, 1)
        reason = self._short(number, allocation)
        if held is not None:
            self.shift(held, number, -1)
        return reason

    def shift(self, allocation: Allocation, number: i64, sign: i64) -> None:
        """A job of that signature gives all of these GPUs back (1) or takes them (-1)."""
        for part in range(len(allocation.machines)):
            self.move(allocation.machines[part], sign * allocation.gpus[part], number)
        self.hold_licences(number, -float(sign))

    def _short(self, number: i64, allocation: Allocation) -> str:
        signature = self.known(number)
        for part in range(len(allocation.machines)):
            machine = allocation.machines[part]
            gpus = allocation.gpus[part]
            usable = self.usable(number, machine)
            if gpus > usable:
                return f"{int(usable)} GPUs of {self.topology.names[0][machine]} are usable for it, not {int(gpus)}"
            if signature.cap > 0 and gpus != signature.cap:
                return f"it takes {int(signature.cap)} GPUs of each machine, not {int(gpus)}"
            if gpus % signature.group != 0 and allocation.total() % signature.group == 0:
                return f"its GPUs come in groups of {int(signature.group)}, and {int(gpus)} are none"
        return ""


picklable(Feasibility, grid(1, 1), Signatures(grid(1, 1)))
