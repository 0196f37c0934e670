"""A gang as the network sees it: the domains it sits in, tier by tier."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network
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
