"""The closest placement an empty cluster has for a gang: the yardstick of every slowdown."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network
from dally.errors import InputError
from dally.perf.gang import Gang, gang_on


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
        level, place, wanted = pending.pop()
        if level == 0:
            machines = append(machines, place)
            counts = append(counts, wanted)
            continue
        first = int(topology.first_children[level][place])
        children = list(range(first, first + int(topology.child_counts[level][place])))
        children.sort(key=lambda child: (-int(topology.gpus[level - 1][child]), child))
        for child in children:
            if wanted == 0:
                break
            part = min(wanted, int(topology.gpus[level - 1][child]))
            pending.append((level - 1, child, part))
            wanted -= part
    return gang_on(network, machines, counts)
