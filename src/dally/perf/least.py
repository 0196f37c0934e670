"""The least that an iteration can take on a network, whatever the placement: docs/bounds.md has the proofs.

Latency and fabrics are left out. What remains are links that no placement avoids, at the best rate of their tier.
"""

from __future__ import annotations

from math import sqrt

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network
from dally.model import Profile


class Least:
    """Lower bounds over all placements of a gang."""

    __slots__ = ("_gpu_nic_rate", "_network", "_rate", "_room")

    def __init__(self, network: Network) -> None:
        self._network: Network = network
        self._rate: vec[float] = vec[float]()  # of the best link of each tier, bytes/s
        self._room: list[vec[i64]] = []  # GPUs in the largest domain of a tier, in the largest two, and so on
        for tier in range(len(network.first_link)):
            domains: i64 = len(network.topology.gpus[tier])
            self._rate = append(self._rate, _highest(network.rate, network.first_link[tier], domains))
            self._room.append(_largest_together(network.topology.gpus[tier]))
        self._gpu_nic_rate: float = _highest(network.gpu_nic_rate, 0, len(network.gpu_nic_rate))

    def iteration_s(self, profile: Profile, gpus: i64) -> float:
        """No placement of so many GPUs has a shorter iteration, in seconds."""
        exposed_s = self._in_buckets_s(profile, gpus) if len(profile.stages) > 0 else self._exposed_s(profile, gpus)
        group = profile.all_to_all_gpus
        if group == 0 or group > gpus:
            group = gpus
        return profile.forward_s + exposed_s + self._all_to_all_s(profile.all_to_all_bytes, group)

    def _exposed_s(self, profile: Profile, gpus: i64) -> float:
        reduce_s = self._all_reduce_s(profile.nbytes, gpus)
        last_s = (1.0 - profile.overlap) * reduce_s
        if profile.last_bucket_bytes > 0.0:
            bucket_s = min(self._all_reduce_s(profile.last_bucket_bytes, gpus), reduce_s)
            last_s = max(last_s, bucket_s)
        return max(profile.backward_s + last_s, reduce_s)

    def _in_buckets_s(self, profile: Profile, gpus: i64) -> float:
        """Buckets together take no less than their bytes at once would."""
        latest_s = profile.backward_s
        tail = 0.0
        place = len(profile.stages) - 1
        while place >= 0:
            count, nbytes, first_s, last_s = profile.stages[place]
            latest_s = max(latest_s, last_s + self._all_reduce_s(tail + nbytes / count, gpus))
            tail += nbytes
            latest_s = max(latest_s, first_s + self._all_reduce_s(tail, gpus))
            place -= 1
        return latest_s

    def _fewest(self, tier: i64, gpus: i64) -> i64:
        """Domains of that tier without which there are not so many GPUs."""
        count: i64 = 1
        for room in self._room[tier]:
            if room >= gpus:
                break
            count += 1
        return count

    def _all_reduce_s(self, nbytes: float, gpus: i64) -> float:
        if nbytes <= 0.0 or self._fewest(0, gpus) == 1:
            return 0.0
        least = -1.0
        for algorithm in self._network.algorithms.split():
            seconds = self._busiest_s(algorithm, nbytes, gpus)
            if least < 0.0 or seconds < least:
                least = seconds
        return least + self._root_s(nbytes)

    def _busiest_s(self, algorithm: str, nbytes: float, gpus: i64) -> float:
        """Seconds of the busiest link that the algorithm cannot avoid."""
        tree = algorithm in ("tree", "nvls")
        if tree and self._network.chunks > 0:
            return 0.0  # level by level: nothing is proven of it
        efficiency = self._network.tree_efficiency if tree else 1.0
        busiest = 0.0
        for tier in range(len(self._rate)):
            domains = self._fewest(tier, gpus)
            if domains == 1:
                break
            load = 2.0 * nbytes * _share(algorithm, domains, gpus) / efficiency
            busiest = max(busiest, load / self._rate[tier])
            if tier == 0 and self._network.chunks == 0:
                # Some machine has no more GPUs than the mean, and only they push its load to the NICs.
                busiest = max(busiest, load / (self._gpu_nic_rate * float(gpus // domains)))
        return busiest

    def _all_to_all_s(self, nbytes: float, gpus: i64) -> float:
        if nbytes <= 0.0 or self._fewest(0, gpus) == 1:
            return 0.0
        size = float(gpus)
        busiest = (size - float(self._room[0][0])) / size * nbytes / self._gpu_nic_rate
        for tier in range(len(self._rate)):
            if self._fewest(tier, gpus) == 1:
                break
            domains: i64 = len(self._room[tier])
            # Some domain has at least the mean, none more than it holds; n·(N − n) is least at one of the ends.
            fewest = float((gpus + domains - 1) // domains)
            most = float(self._room[tier][0])
            load = min(fewest * (size - fewest), most * (size - most)) / size * nbytes
            busiest = max(busiest, load / self._rate[tier])
        return busiest + self._root_s(nbytes)

    def _root_s(self, nbytes: float) -> float:
        root_s = self._network.root_s
        if 1 in self._network.joined and self._network.fabric_root_s < root_s:  # machines may share a fabric
            root_s = self._network.fabric_root_s
        return root_s * sqrt(nbytes) if self._network.chunks == 0 else 0.0


def _share(algorithm: str, domains: i64, gpus: i64) -> float:
    """Of the bytes, what crosses the busiest of so many domains' uplinks in one pass at least."""
    if algorithm == "ring":
        return float(gpus - 1) / float(gpus)
    if algorithm == "hierarchical":
        return float(domains - 1) / float(domains)
    return 1.0 if domains > 3 else 0.25 * float(domains)


def _highest(rates: vec[float], first: i64, count: i64) -> float:
    highest = 0.0
    for place in range(first, first + count):
        if rates[place] > highest:
            highest = rates[place]
    return highest


def _largest_together(gpus: vec[i64]) -> vec[i64]:
    result: vec[i64] = vec[i64]()
    total = 0
    for room in sorted([int(count) for count in gpus], reverse=True):
        total += room
        result = append(result, total)
    return result
