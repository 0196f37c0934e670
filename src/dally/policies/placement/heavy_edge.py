"""Heavy-edge placement: the GPUs that exchange most sit together, so as few machines as possible are used."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit


class HeavyEdge(Placement):
    """As few machines as possible, then the closest tier that allows so few, then its fullest such domain.

    In a data-parallel gang every pair of GPUs exchanges the same, so what crosses machines falls with
    their number. Best fit differs: it takes the fullest domain of the closest tier, which may scatter
    the gang over more machines than another domain would.
    """

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        if cluster.free_gpus < job.gpus:
            return None
        inside = best_fit(cluster, 0, job.gpus)
        if inside is not None:
            return inside
        fewest = machines_needed(cluster, cluster.root, 0, job.gpus, job.group)
        if fewest < 0:
            return None
        tier: i64 = 1
        while True:  # ends at the root
            domain = _fullest(cluster, tier, job.gpus, job.group, fewest)
            if domain >= 0:
                return _fill(cluster, tier, domain, job.gpus, job.group)
            tier += 1


def machines_needed(cluster: Cluster, tier: i64, domain: i64, gpus: i64, group: i64) -> i64:
    """The fewest machines of the domain that have room for the gang, or -1."""
    most = cluster.topology.largest[0]
    counts = vec[i64]([0] * int(most + 1))  # machines by how many GPUs they can give
    first, last = cluster.topology.machines_of(tier, domain)
    free = cluster.free[0]
    for machine in range(first, last):
        counts[free[machine] - free[machine] % group] += 1
    used: i64 = 0
    room = most
    while room > 0:
        here = counts[room]
        if here * room >= gpus:
            return used + (gpus + room - 1) // room
        used += here
        gpus -= here * room
        room -= 1
    return -1


def _fullest(cluster: Cluster, tier: i64, gpus: i64, group: i64, fewest: i64) -> i64:
    """The domain of that tier with the fewest free GPUs where so few machines do, or -1."""
    best: i64 = -1
    free = cluster.free[tier]
    for domain in range(len(free)):
        if free[domain] < gpus or (best >= 0 and free[domain] >= free[best]):
            continue
        if machines_needed(cluster, tier, domain, gpus, group) == fewest:
            best = domain
    return best


def _fill(cluster: Cluster, tier: i64, domain: i64, gpus: i64, group: i64) -> Allocation:
    """The emptiest machines whole, rack by rack; the remainder from the machine it fits best, near them if any."""
    free = cluster.free[0]
    racks = cluster.topology.parents[0]
    rack_free = cluster.free[1]
    first, last = cluster.topology.machines_of(tier, domain)
    rows: list[tuple[int, int, int, int]] = []  # emptiest first, in the emptiest racks first
    for machine in range(first, last):
        room = free[machine] - free[machine] % group
        if room > 0:
            rack = racks[machine]
            rows.append((-int(room), -int(rack_free[rack]), int(rack), int(machine)))
    rows.sort()
    allocation = Allocation(tier)
    near: set[int] = set()
    place = 0
    while -rows[place][0] < gpus:
        allocation.add(rows[place][3], -rows[place][0])
        near.add(rows[place][2])
        gpus += rows[place][0]
        place += 1
    rest = [(row[2] not in near, -row[0], row[3]) for row in rows[place:] if -row[0] >= gpus]
    allocation.add(min(rest)[2], gpus)
    return allocation
