"""A gang as the network sees it, and the closest placement that an empty cluster has for it."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network
from dally.errors import InputError
from dally.pickles import picklable


class Gang:
    """Active domains per tier from the machines up to the first one that holds the whole gang.

    For tier t: `domains[t]` their numbers, `gpus[t]` the gang's GPUs in each, `children[t]` the active
    domains below each (GPUs, for machines), `parents[t]` the place of each one's parent in tier t + 1.
    """

    __slots__ = ("children", "domains", "gpus", "parents", "size", "top")

    def __init__(self) -> None:
        self.size: i64 = 0  # GPUs in all
        self.top: i64 = 0  # the tier of the one domain that holds it
        self.domains: list[vec[i64]] = []
        self.gpus: list[vec[i64]] = []
        self.children: list[vec[i64]] = []
        self.parents: list[vec[i64]] = []


picklable(Gang)


def gang_on(network: Network, machines: vec[i64], gpus: vec[i64]) -> Gang:
    """The gang with that many GPUs on each of these machines, which may come in any order."""
    gang = Gang()
    parts: dict[int, int] = {}
    for place in range(len(machines)):
        machine = int(machines[place])
        parts[machine] = parts.get(machine, 0) + int(gpus[place])
    domains: vec[i64] = vec[i64]()
    counts: vec[i64] = vec[i64]()
    for machine in sorted(parts):
        domains = append(domains, machine)
        counts = append(counts, parts[machine])
        gang.size += parts[machine]
    children = counts
    tier: i64 = 0
    while True:
        gang.domains.append(domains)
        gang.gpus.append(counts)
        gang.children.append(children)
        if len(domains) <= 1:
            break
        above: vec[i64] = vec[i64]()
        above_counts: vec[i64] = vec[i64]()
        above_children: vec[i64] = vec[i64]()
        parents: vec[i64] = vec[i64]()
        numbers = network.topology.parents[tier]
        for place in range(len(domains)):
            parent = numbers[domains[place]]
            last: i64 = len(above) - 1
            if last < 0 or above[last] != parent:
                above = append(above, parent)
                above_counts = append(above_counts, 0)
                above_children = append(above_children, 0)
                last += 1
            above_counts[last] += counts[place]
            above_children[last] += 1
            parents = append(parents, last)
        gang.parents.append(parents)
        domains = above
        counts = above_counts
        children = above_children
        tier += 1
    gang.top = tier
    return gang


def closest_placement(network: Network, gpus: i64) -> Gang:
    """The gang in the first domain of its closest tier, on as few machines as hold it."""
    topology = network.topology
    tier = topology.closest_tier(gpus)
    if tier < 0:
        raise InputError(f"gpus: {int(gpus)}: the cluster has {topology.total_gpus()}")
    domain: i64 = 0
    while topology.gpus[tier][domain] < gpus:
        domain += 1
    return _gang(network, tier, domain, gpus)


def placement_at(network: Network, gpus: i64, tier: i64) -> Gang | None:
    """Two halves of a gang that only that tier joins, each as close as can be; None if there is no such place.

    At its closest tier, the closest placement.
    """
    topology = network.topology
    closest = topology.closest_tier(gpus)
    if tier <= closest or closest < 0:
        return closest_placement(network, gpus) if tier == closest else None
    half = gpus // 2
    for domain in range(len(topology.names[tier])):
        first = int(topology.first_children[tier][domain])
        rooms = [
            (int(topology.gpus[tier - 1][first + child]), first + child)
            for child in range(int(topology.child_counts[tier][domain]))
        ]
        fitting = [child for room, child in rooms if room >= gpus - half]
        if len(fitting) > 1 and half > 0:
            return _fill(
                network,
                [(int(tier) - 1, fitting[0], int(gpus - half)), (int(tier) - 1, fitting[1], int(half))],
            )
    return None


def _gang(network: Network, tier: i64, domain: i64, gpus: i64) -> Gang:
    return _fill(network, [(int(tier), int(domain), int(gpus))])


def _fill(network: Network, pending: list[tuple[int, int, int]]) -> Gang:
    """Largest children first, so that the gang meets as few of them as can be; then the same inside each."""
    machines: vec[i64] = vec[i64]()
    counts: vec[i64] = vec[i64]()
    topology = network.topology
    while pending:
        level, place, desired = pending.pop()
        if level == 0:
            machines = append(machines, place)
            counts = append(counts, desired)
            continue
        first = int(topology.first_children[level][place])
        children = list(range(first, first + int(topology.child_counts[level][place])))
        children.sort(key=lambda child: (-int(topology.gpus[level - 1][child]), child))
        for child in children:
            if desired == 0:
                break
            part = min(desired, int(topology.gpus[level - 1][child]))
            pending.append((level - 1, child, part))
            desired -= part
    return gang_on(network, machines, counts)
