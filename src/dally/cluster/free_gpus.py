"""Free GPUs of every domain of a topology, kept in buckets so that the best fit is found without a scan."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.bitset import Buckets
from dally.cluster.topology import Topology


class FreeGpus:
    """How many GPUs are free in each domain, tier by tier; machines are the domains of tier 0."""

    __slots__ = ("children", "free", "free_gpus", "root", "tier_buckets", "topology")

    def __init__(self, topology: Topology) -> None:
        self.topology: Topology = topology
        self.root: i64 = len(topology.tiers) - 1
        self.free_gpus: i64 = topology.total_gpus()
        self.free: list[vec[i64]] = [vec[i64](gpus) for gpus in topology.gpus]
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

    def free_on(self, machine: i64) -> i64:
        """Free GPUs of one machine."""
        return self.free[0][machine]

    def best_domain(self, tier: i64, gpus: i64) -> i64:
        """The domain of that tier with the fewest free GPUs that still has `gpus`, or -1."""
        if tier == self.root:
            return 0 if self.free_gpus >= gpus else -1
        return self.tier_buckets[tier].best_fit(gpus)

    def fullest(self, tier: i64, gpus: i64, most: i64) -> list[int]:
        """Up to `most` domains of that tier with room for `gpus`, fewest free GPUs first."""
        result: list[int] = []
        domain = self.best_domain(tier, gpus)
        while domain >= 0 and len(result) < most:
            result.append(int(domain))
            domain = self.tier_buckets[tier].next_fit(domain) if tier < self.root else -1
        return result

    def change(self, machine: i64, gpus: i64) -> None:
        """Add free GPUs to a machine and to every domain above it."""
        domain = machine
        for tier in range(self.root):
            parent = self.topology.parents[tier][domain]
            buckets = self.tier_buckets[tier]
            free = buckets.free[domain] + gpus
            buckets.move(domain, free)
            first = self.topology.first_children[tier + 1][parent]
            self.children[tier + 1][parent].move(domain - first, free)
            domain = parent
        self.free_gpus += gpus
        self.free[self.root][0] = self.free_gpus
