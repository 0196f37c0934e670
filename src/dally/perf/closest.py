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


def _gang(network: Network, tier: i64, domain: i64, gpus: i64) -> Gang:
    """Largest children first, so that the gang meets as few of them as can be; then the same inside each."""
    pending: list[tuple[int, int, int]] = [(int(tier), int(domain), int(gpus))]
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
