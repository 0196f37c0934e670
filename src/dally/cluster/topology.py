"""The topology tree: tiers of domains, from machines up to the whole network."""

from __future__ import annotations

from typing import Final, NamedTuple

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.partitions import Partition
from dally.model import Allocation
from dally.pickles import picklable

DEFAULT_TIERS = {
    2: ["machine", "network"],
    3: ["machine", "rack", "network"],
    4: ["machine", "rack", "pod", "network"],
}


def default_tiers(depth: int) -> list[str]:
    """Names for a tree of that many tiers, closest first."""
    if depth in DEFAULT_TIERS:
        return list(DEFAULT_TIERS[depth])
    return ["machine", "rack", *(f"tier{k}" for k in range(2, depth - 1)), "network"]


class Link:
    """What joins a domain to its parent, each direction, and a machine's GPUs to each other; 0 = not stated."""

    __slots__ = (
        "background", "capacity_gbps", "efficiency", "fabric", "fabric_gbps", "fabric_latency_s", "latency_s",
        "oversubscription", "planes", "rails", "routing", "torus", "torus_gbps", "uplinks",
    )  # fmt: skip

    def __init__(
        self,
        capacity_gbps: float = 0.0,
        latency_s: float = 0.0,
        efficiency: float = 0.0,
        oversubscription: float = 0.0,
        background: float = -1.0,
        fabric: str = "",
        fabric_gbps: float = 0.0,
        fabric_latency_s: float = 0.0,
        rails: float = 0.0,
        uplinks: float = 0.0,
        routing: str = "",
        planes: float = 0.0,
        torus: str = "",
        torus_gbps: float = 0.0,
    ) -> None:
        self.capacity_gbps: float = capacity_gbps  # GB/s, 10^9 bytes
        self.latency_s: float = latency_s  # per hop
        self.efficiency: float = efficiency  # share of the capacity that a collective attains
        self.oversubscription: float = oversubscription  # what hangs below over the capacity, instead of it
        self.background: float = background  # share that others take; 0 can be stated, so -1 = not stated
        self.fabric: str = fabric  # inside a machine, or between a domain's machines: nvswitch, nvlink-mesh or pcie
        self.fabric_gbps: float = fabric_gbps  # per GPU
        self.fabric_latency_s: float = fabric_latency_s  # per hop
        self.rails: float = rails  # leaf switches side by side; a machine's GPUs take them in turn
        self.uplinks: float = uplinks  # cables that the capacity consists of
        self.routing: str = routing  # over those cables: spray, hash or worst
        self.planes: float = planes  # fabrics side by side, to each of which a NIC sends the same
        self.torus: str = torus  # the domain's shape as a slice, or `joined`: whole blocks below form a torus
        self.torus_gbps: float = torus_gbps  # of one link of it, GB/s each direction

    def facts(self) -> tuple[object, ...]:
        """Everything stated, to compare links by."""
        return (
            self.capacity_gbps, self.latency_s, self.efficiency, self.oversubscription, self.background,
            self.fabric, self.fabric_gbps, self.fabric_latency_s, self.rails, self.uplinks, self.routing,
            self.planes, self.torus, self.torus_gbps,
        )  # fmt: skip


picklable(Link)


class Capacity(NamedTuple):
    """What a machine has for jobs beside its GPUs; None: not known, so no limit."""

    cpus: float | None = None
    memory_mb: float | None = None
    resources: dict[str, float] | None = None  # other ones by name; one that is missing: none
    features: frozenset[str] = frozenset()


UNSTATED: Final = Capacity()


class Machine:
    """One machine as a topology file states it: the domains above it from the top down, then its own name."""

    __slots__ = ("capacity", "gpu_type", "gpus", "name", "path")

    def __init__(
        self, path: tuple[str, ...], name: str, gpus: int, gpu_type: str = "", capacity: Capacity = UNSTATED
    ) -> None:
        self.path = path
        self.name = name
        self.gpus = gpus
        self.gpu_type = gpu_type  # empty: not stated
        self.capacity = capacity


picklable(Machine, (), "", 1)


class Topology:
    """An immutable tree. Tier 0 holds the machines, the last tier the one domain that is everything.

    Domains of a tier are numbered so that the children of each are consecutive: machines rack by rack.
    """

    __slots__ = (
        "_by_group",
        "capacities",
        "child_counts",
        "first_children",
        "gpu_types",
        "gpus",
        "largest",
        "links",
        "names",
        "parents",
        "partitions",
        "tiers",
    )

    def __init__(
        self, tiers: list[str], machines: list[Machine], links: dict[tuple[str, ...], Link] | None = None
    ) -> None:
        """`links` maps a domain's path (its own name last) to its uplink."""
        depth = len(tiers)
        self.tiers: list[str] = tiers
        paths = _grouped([(*machine.path, machine.name) for machine in machines])
        gpus_of = {(*machine.path, machine.name): machine.gpus for machine in machines}
        self.names: list[list[str]] = []
        self.parents: list[vec[i64]] = []
        self.first_children: list[vec[i64]] = []
        self.child_counts: list[vec[i64]] = []
        self.gpus: list[vec[i64]] = []
        self.links: list[list[Link]] = []
        type_of = {(*machine.path, machine.name): machine.gpu_type for machine in machines}
        self.gpu_types: list[str] = [type_of[path] for path in paths]  # by machine
        capacity_of = {(*machine.path, machine.name): machine.capacity for machine in machines}
        self.capacities: list[Capacity] = [capacity_of[path] for path in paths]  # the same
        sizes = [gpus_of[path] for path in paths]
        first: list[int] = [0] * len(paths)
        counts: list[int] = [0] * len(paths)
        for tier in range(depth):
            self.names.append([path[-1] if path else tiers[-1] for path in paths])
            self.gpus.append(vec[i64](sizes))
            self.first_children.append(vec[i64](first))
            self.child_counts.append(vec[i64](counts))
            self.links.append([links[path] if links and path in links else Link() for path in paths])
            above: list[tuple[str, ...]] = []
            parents: list[int] = []
            above_sizes: list[int] = []
            first = []
            counts = []
            for index, path in enumerate(paths):
                if not above or above[-1] != path[:-1]:
                    above.append(path[:-1])
                    above_sizes.append(0)
                    first.append(index)
                    counts.append(0)
                parents.append(len(above) - 1)
                above_sizes[-1] += sizes[index]
                counts[-1] += 1
            self.parents.append(vec[i64](parents if tier < depth - 1 else [-1]))
            paths, sizes = above, above_sizes
        self.partitions: list[Partition] = []
        self._by_group: dict[int, vec[i64]] = {}
        self.largest: vec[i64] = vec[i64]([int(max(gpus)) for gpus in self.gpus])

    def total_gpus(self) -> int:
        return int(self.gpus[-1][0])

    def machine_count(self) -> int:
        return len(self.names[0])

    def closest_tier(self, gpus: i64, group: i64 = 1) -> i64:
        """tier*(g): the closest tier where one empty domain holds that many GPUs, or -1.

        GPUs come in groups of `group` that share a machine.
        """
        largest = self.largest if group == 1 else self._largest_in_groups(group)
        for tier in range(len(largest)):
            if largest[tier] >= gpus:
                return tier
        return -1

    def machines_of(self, tier: i64, domain: i64) -> tuple[i64, i64]:
        """The first machine of a domain, and the one after its last."""
        first = domain
        last = domain
        while tier > 0:
            first = self.first_children[tier][first]
            last = self.first_children[tier][last] + self.child_counts[tier][last] - 1
            tier -= 1
        return first, last + 1

    def domain_of(self, tier: i64, machine: i64) -> i64:
        """The domain of that tier in which a machine is."""
        domain = machine
        for above in range(tier):
            domain = self.parents[above][domain]
        return domain

    # Not of a `vec`: whenever plain Python hands one to compiled code, mypyc 2.4 loses it, and its memory.
    def tier_of(self, allocation: Allocation) -> i64:
        """The closest tier of which one domain holds all of the allocation's machines."""
        tier: i64 = 0
        machines = allocation.machines
        home = machines[0]  # the domain of that tier which holds those seen so far
        for machine in machines:
            domain = self.domain_of(tier, machine)
            while domain != home:
                domain = self.parents[tier][domain]
                home = self.parents[tier][home]
                tier += 1
        return tier

    def _largest_in_groups(self, group: i64) -> vec[i64]:
        """The most GPUs in whole groups that a domain of each tier holds."""
        result = self._by_group.get(int(group))
        if result is not None:
            return result
        result = self.largest_of([int(gpus - gpus % group) for gpus in self.gpus[0]])
        self._by_group[int(group)] = result
        return result

    def largest_of(self, sizes: list[int]) -> vec[i64]:
        """By tier, the most that a domain has if machines have these sizes."""
        rows = [max(sizes)]
        for tier in range(len(self.tiers) - 1):
            above = [0] * len(self.names[tier + 1])
            for domain, size in enumerate(sizes):
                above[self.parents[tier][domain]] += size
            sizes = above
            rows.append(max(sizes))
        return vec[i64](rows)

    def machine_numbers(self) -> dict[str, int]:
        """Each machine's number by its name, and by the number itself as text."""
        result = {str(number): number for number in range(self.machine_count())}
        result.update({name: number for number, name in enumerate(self.names[0])})
        return result


picklable(Topology, ["machine", "network"], [Machine((), "", 1)])


def _grouped(paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The paths with the children of each domain together, domains in the order they first appear."""
    rank: dict[tuple[str, ...], int] = {}
    for path in paths:
        for length in range(1, len(path) + 1):
            rank.setdefault(path[:length], len(rank))
    return sorted(paths, key=lambda path: [rank[path[:length]] for length in range(1, len(path) + 1)])


def grid(*counts: int) -> Topology:
    """Domains per domain from the top down, GPUs per machine last: `grid(racks, machines, gpus)`."""
    tiers = default_tiers(len(counts))
    paths: list[tuple[str, ...]] = [()]
    for tier, count in zip(reversed(tiers[1:-1]), counts, strict=False):
        paths = [(*path, f"{tier}{index}") for path in paths for index in range(count)]
    return Topology(
        tiers,
        [Machine(path, machine_name(path, index), counts[-1]) for path in paths for index in range(counts[-2])],
    )


def machine_name(path: tuple[str, ...], index: int) -> str:
    """The name of a domain's machine when nobody gave it one."""
    return "-".join((*path, f"m{index}"))
