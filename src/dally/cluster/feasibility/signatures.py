"""Constraint signatures: jobs that need the same, may use the same machines and have one shape share a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.feasibility.permission import Permission, permission_of
from dally.cluster.feasibility.shape import is_in_shape, shape_of
from dally.cluster.feasibility.statement import amounts, is_constrained
from dally.cluster.topology import Topology, grid
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import INFINITY, Job
from dally.pickles import picklable

if TYPE_CHECKING:
    from dally.cluster.feasibility.feasibility import Feasibility

CPUS: Final = 0
MEMORY: Final = 1
PARTS: Final = 1_000_000.0  # amounts are counted in millionths,
SLACK: Final = 500  # and equal if they differ by less than a thousandth: a seventh of a CPU may be rounded up


class ReservedTime(NamedTuple):
    """A reservation: machines that are kept from all jobs that do not name it, for a time."""

    name: str
    machines: frozenset[int]
    start_s: float
    end_s: float
    users: frozenset[str] = frozenset()  # whose jobs may name it; no user and no account: all
    accounts: frozenset[str] = frozenset()


class Signature:
    """What jobs of one signature need, and where they may be."""

    __slots__ = (
        "cap", "everywhere", "exclusive", "group", "licences", "limit_s", "number", "open", "per_gpu", "per_node",
        "permission", "problem", "reservation", "resources",
    )  # fmt: skip

    def __init__(self, number: i64, machines: i64) -> None:
        self.number: i64 = number
        self.group: i64 = 1  # GPUs that must share a machine,
        self.cap: i64 = 0  # and how many one machine gives at most; 0: any number
        self.exclusive: bool = False
        self.resources: vec[i64] = vec[i64]()  # numbers of those it needs,
        self.per_gpu: vec[i64] = vec[i64]()  # how much of each for a GPU,
        self.per_node: vec[i64] = vec[i64]()  # and for a machine
        self.licences: dict[str, float] = {}
        self.reservation: str = ""
        self.limit_s: float = INFINITY  # for how long it runs at most, where reservations make that count
        self.permission: Permission | None = None  # None: any machine
        self.everywhere: bool = True  # whether all machines are open to it now,
        self.open: vec[i64] = vec[i64]([1] * int(machines))  # and which are
        self.problem: str = ""  # why no machine could ever take such a job, as far as its statement tells


picklable(Signature, 0, 1)


class Signatures:
    """The signatures of a run, and the resources that they count; shared by all clusters of the run."""

    __slots__ = (
        "_by_key", "_permissions", "_sets", "fits", "free_licences", "names", "now", "rows", "topology", "version",
        "windows",
    )  # fmt: skip

    def __init__(self, topology: Topology) -> None:
        self.topology: Topology = topology
        self.names: list[str] = ["cpus", "memory_mb"]  # of resources
        self.rows: list[Signature] = [Signature(0, topology.machine_count())]  # the first: no constraint
        self.fits: list[Feasibility] = []  # the books of all clusters of the run
        self.windows: list[ReservedTime] = []
        self.free_licences: dict[str, float] = {}
        self.now: float = -INFINITY
        self.version: i64 = 0  # of what is open to whom
        self._by_key: dict[tuple[object, ...], int] = {}
        self._permissions: dict[tuple[object, ...], Permission | None] = {}
        self._sets: dict[frozenset[int], Permission] = {}

    def check(self, job: Job) -> None:
        """An InputError if what the job states cannot be read."""
        spec = job.spec
        if spec.features or spec.include or spec.exclude:
            permission_of(self.topology, job)
        for field in ("resources_per_gpu", "resources_per_node", "licences"):
            amounts(field, getattr(spec, field))

    def sign(self, job: Job) -> None:
        """Give the job its signature; an elastic one keeps the sizes that go with it."""
        job.signature = self.number_of(job)
        if len(job.sizes) > 0 and job.signature > 0:
            job.sizes = self._sizes_in_shape(job)

    def _sizes_in_shape(self, job: Job) -> tuple[int, ...]:
        """Of its sizes those of the shape in which it comes; none if that leaves no choice."""
        signature, spec = self.rows[job.signature], job.spec
        permission = signature.permission
        if permission is not None and permission.all_of > 0:  # those machines, and no others
            return ()
        most = INFINITY
        for partition in self.topology.partitions:
            if partition.max_gpus and partition.name in spec.partition.split(","):
                most = min(most, float(partition.max_gpus))
        group, cap = int(signature.group), int(signature.cap)
        sizes = tuple(
            size
            for size in job.sizes
            if size <= most and is_in_shape(size, group, cap, spec.nodes_min, spec.nodes_max)
        )
        return sizes if len(sizes) > 1 and int(job.requested) in sizes else ()

    def number_of(self, job: Job) -> i64:
        """The number of the job's signature, the same at all of its sizes; 0: none."""
        spec = job.spec
        stated = bool(is_constrained(spec))
        if not (stated or job.group > 1 or job.allowed is not None or self.windows or self._in_partition(spec)):
            return 0
        try:
            self.check(job) if stated else None
            permission, problem = self._permission(job)
        except InputError as error:  # on a live cluster: files are checked as they are read
            permission, problem = None, str(error)
        largest = int(self.topology.largest[0])
        least, most = spec.nodes_min, spec.nodes_max
        if permission is not None and permission.all_of > 0:  # those machines, and no others
            least = max(least, permission.all_of)
            most = permission.all_of if most == 0 else min(most, permission.all_of)
        gang = shape_of(int(job.requested), int(job.group), spec.gpus_per_node, least, most, largest)
        if gang is None:
            problem = problem or "asks for GPUs and machines in numbers that do not go together"
            gang = shape_of(int(job.requested), int(job.group), 0, 0, 0, largest)
            assert gang is not None
        windowed = len(self.windows) > 0 or spec.reservation != ""
        limit_s = job.limit_s if job.limit_s >= 0.0 else INFINITY
        if not windowed:
            limit_s = INFINITY
        if spec.reservation:
            problem = problem or self._no_reservation(job)
        needs = _needs(spec)
        place = -1 if permission is None else permission.number
        key = (gang.group, gang.cap, spec.exclusive, needs, place, spec.reservation, limit_s, problem)
        number = self._by_key.get(key)
        if number is None:
            bound = gang.group > 1 or gang.cap > 0 or place >= 0 or problem != "" or windowed
            if not (bound or spec.exclusive or any(needs)):
                self._by_key[key] = 0
                return 0
            number = len(self.rows)
            self._by_key[key] = number
            signature = self._made(number, spec, gang.group, gang.cap, permission, limit_s, problem)
            self.rows.append(signature)
            self._open(signature)
        return number

    def _in_partition(self, spec: JobSpec) -> bool:
        return bool(spec.partition) and len(self.topology.partitions) > 0

    def _made(
        self, number: int, spec: JobSpec, group: int, cap: int, permission: Permission | None, limit_s: float,
        problem: str,
    ) -> Signature:  # fmt: skip
        signature = Signature(number, self.topology.machine_count())
        signature.group = group
        signature.cap = cap
        signature.exclusive = spec.exclusive
        signature.permission = permission
        signature.reservation = spec.reservation
        signature.limit_s = limit_s
        signature.problem = problem
        signature.licences = amounts("licences", spec.licences)
        per_gpu = {"cpus": spec.cpus_per_gpu, "memory_mb": spec.memory_mb_per_gpu}
        per_gpu.update(amounts("resources_per_gpu", spec.resources_per_gpu))
        per_node = {"cpus": spec.cpus_per_node, "memory_mb": spec.memory_mb_per_node}
        per_node.update(amounts("resources_per_node", spec.resources_per_node))
        for name in {**per_gpu, **per_node}:
            one, once = per_gpu.get(name, 0.0), per_node.get(name, 0.0)
            if one > 0.0 or once > 0.0:
                signature.resources = append(signature.resources, self.resource_number(name))
                signature.per_gpu = append(signature.per_gpu, int(one * PARTS + 0.5))
                signature.per_node = append(signature.per_node, int(once * PARTS + 0.5))
        return signature

    def resource_number(self, name: str) -> int:
        """The number of a resource, which is counted from now on."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _permission(self, job: Job) -> tuple[Permission | None, str]:
        """Machines that the job may use, each set once; and why there are none, if that is so."""
        spec = job.spec
        partition = spec.partition if self.topology.partitions else ""
        text: tuple[object, ...] = (spec.features, spec.include, spec.exclude, partition, job.allowed)
        if not (spec.features or spec.include or spec.exclude or partition or job.allowed is not None):
            return None, ""
        if partition:  # who may use it, and for how much
            text = (*text, job.user, job.account, int(job.gpus), job.limit_s)
        permission = self._permissions.get(text)
        if permission is None:
            permission = permission_of(self.topology, job)
            known = self._sets.setdefault(permission.machines, permission)
            if known.all_of != permission.all_of or known.problem != permission.problem:
                known = permission
            elif known is not permission:
                permission = known
            if permission.number < 0:
                permission.number = len(self._permissions)
            self._permissions[text] = permission
        return permission, permission.problem

    # Reservations, and what changes about machines.

    def _no_reservation(self, job: Job) -> str:
        """Why the job may not run in the reservation that it names; empty if it may."""
        for window in self.windows:
            if window.name == job.spec.reservation:
                listed = window.users or window.accounts
                if listed and job.user not in window.users and job.account not in window.accounts:
                    return f"names the reservation {window.name}, which is for others"
                return ""
        return f"names the reservation {job.spec.reservation}, which does not exist"

    def set_windows(self, windows: list[ReservedTime]) -> None:
        """These are the reservations from now on; jobs must be signed again."""
        self.windows = windows
        self._open_all()

    def forget_machines(self) -> None:
        """Machines have other features, or are in other partitions; jobs must be signed again."""
        self._permissions.clear()
        self._sets.clear()
        self._by_key.clear()
        self._open_all()

    def _open_all(self) -> None:
        for signature in self.rows:
            self._open(signature)
        self.version += 1

    def advance(self, now: float) -> None:
        """It is `now`: reservations begin and end, and come closer."""
        self.now = now
        if self.windows:
            for signature in self.rows:
                if signature.number > 0:
                    self._open(signature)
            self.version += 1

    def next_edge_s(self) -> float:
        """When the next reservation begins or ends."""
        edge_s = INFINITY
        for window in self.windows:
            for moment_s in (window.start_s, window.end_s):
                if self.now < moment_s < edge_s:
                    edge_s = moment_s
        return edge_s

    def _open(self, signature: Signature) -> None:
        """Work out which machines are open to jobs of the signature now."""
        closed = 0
        permission = signature.permission
        inside: frozenset[int] | None = None
        if signature.reservation:
            inside = self._reserved(signature.reservation)
        for machine in range(len(signature.open)):
            fine = not signature.problem and (permission is None or machine in permission.machines)
            if fine and inside is not None:
                fine = machine in inside
            if fine and self.windows:
                fine = not self._is_reserved(signature, machine)
            signature.open[machine] = 1 if fine else 0
            if not fine:
                closed += 1
        signature.everywhere = closed == 0

    def _reserved(self, name: str) -> frozenset[int]:
        """Machines of the reservation of that name, while it lasts."""
        machines: frozenset[int] = frozenset()
        for window in self.windows:
            if window.name == name and window.start_s <= self.now < window.end_s:
                machines = machines | window.machines
        return machines

    def _is_reserved(self, signature: Signature, machine: int) -> bool:
        """Whether a reservation keeps the machine from jobs of the signature that would start now."""
        for window in self.windows:
            if window.name == signature.reservation or machine not in window.machines:
                continue
            if self.now < window.end_s and self.now + signature.limit_s > window.start_s:
                return True
        return False


def _needs(spec: JobSpec) -> tuple[object, ...]:
    return (
        spec.cpus_per_gpu, spec.cpus_per_node, spec.memory_mb_per_gpu, spec.memory_mb_per_node,
        spec.resources_per_gpu, spec.resources_per_node, spec.licences,
    )  # fmt: skip


picklable(Signatures, grid(1, 1))
