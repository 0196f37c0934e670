"""Collectives on slices of a torus: inside each over its own links, between slices over the machines' NICs."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network
from dally.cluster.torus import Torus, volume
from dally.errors import InputError
from dally.perf.costs import Cost
from dally.perf.gang import Gang
from dally.pickles import picklable


class TorusSlice:
    """A part of a gang that has a torus or a mesh of its own."""

    __slots__ = ("gpus", "shape", "wraps")

    def __init__(self, shape: list[int], wraps: bool, gpus: i64) -> None:
        self.shape: list[int] = shape
        self.wraps: bool = wraps
        self.gpus: i64 = gpus

    def ways(self, side: i64) -> float:
        """Links of a node along a dimension of that length by which it can send at a time."""
        if side < 2:
            return 0.0
        return 2.0 if self.wraps else 1.0

    def rate(self, torus: Torus) -> float:
        """What each node sends at a time when every dimension has its part of the data, bytes/s."""
        ways = 0.0
        for side in self.shape:
            ways += self.ways(side)
        return ways * torus.rate

    def reduce_s(self, torus: Torus, nbytes: float, passes: float) -> float:
        """Seconds of a reduce-scatter, and of an all-gather with two passes: rings along every dimension."""
        nodes = float(volume(self.shape))
        return passes * (nodes - 1.0) / nodes * nbytes / self.rate(torus) if nodes > 1.0 else 0.0

    def exchange_s(self, torus: Torus, nbytes: float) -> float:
        """Seconds in which each GPU sends so much, the same to every other of the slice: the narrowest cut."""
        longest_s = 0.0
        for side in self.shape:
            half: i64 = side // 2
            if half > 0:
                crossing = float(half) * float(side - half) / float(side) * float(torus.unit) * nbytes
                seconds = crossing / (self.ways(side) * torus.rate)
                if seconds > longest_s:
                    longest_s = seconds
        return longest_s

    def latency_s(self, torus: Torus) -> float:
        """Seconds for the steps of one pass along every dimension."""
        steps = 0
        for side in self.shape:
            steps += side - 1
        return float(steps) * torus.latency_s


picklable(TorusSlice, [1], False, 1)


class Slices:
    """The slices of a gang, and in which of them each of its machines is."""

    __slots__ = ("all", "of_machine")

    def __init__(self, machines: i64) -> None:
        self.all: list[TorusSlice] = []
        self.of_machine: vec[i64] = vec[i64]([-1] * int(machines))


def slices_of(network: Network, torus: Torus, gang: Gang) -> Slices:
    """Whole domains that are slices, the largest first, and whole blocks below one domain as one."""
    result = Slices(len(gang.domains[0]))
    above: list[vec[i64]] = [vec[i64](list(range(len(gang.domains[0]))))]  # each machine's place in a tier
    for tier in range(gang.top):
        places: vec[i64] = vec[i64]()
        for place in above[tier]:
            places = append(places, gang.parents[tier][place])
        above.append(places)
    tier = gang.top
    while tier >= 0:
        for kind in (False, True):  # whole domains, then blocks that are joined here
            if kind and (not torus.joins or tier == 0):
                continue
            _cut(network, torus, gang, result, above, tier, kind)
        tier -= 1
    for place in range(len(gang.domains[0])):
        if result.of_machine[place] < 0:  # a part of a machine: its GPUs in a row
            gpus = gang.gpus[0][place]
            result.of_machine[place] = len(result.all)
            result.all.append(TorusSlice([int(gpus // torus.unit) if gpus > torus.unit else 1], False, gpus))
    return result


def _cut(
    network: Network, torus: Torus, gang: Gang, result: Slices, above: list[vec[i64]], tier: i64, joined: bool
) -> None:
    """Give machines of a tier's domains to slices that are such a domain, or whole blocks below it."""
    topology = network.topology
    number: dict[int, int] = {}  # of the slice in a domain
    block = torus.block_gpus()
    for place in range(len(gang.domains[0])):
        if result.of_machine[place] >= 0:
            continue
        here = above[tier][place]
        below = above[tier - 1][place] if joined else here
        level = tier - 1 if joined else tier
        gpus = gang.gpus[level][below]
        if gpus != topology.gpus[level][gang.domains[level][below]]:
            continue
        if joined and (gpus != block or topology.gpus[tier][gang.domains[tier][here]] == block):
            continue
        shape = torus.shape_of(gpus)
        if not shape:
            continue
        index = number.get(int(here))
        if index is None:
            index = len(result.all)
            number[int(here)] = index
            result.all.append(TorusSlice(shape, gpus == block, 0))
        result.of_machine[place] = index
        piece = result.all[index]
        piece.gpus += gang.gpus[0][place]
        if joined:
            piece.shape = torus.joined(piece.gpus // block) if piece.gpus >= block else shape


def slice_cost(network: Network, torus: Torus, gang: Gang, collective: str, nbytes: float) -> Cost:
    """The cost of a collective on a gang's slices."""
    slices = slices_of(network, torus, gang)
    cost = Cost()
    cost.algorithm = "torus"
    if collective == "all-to-all":
        _exchange(network, torus, gang, slices, nbytes, cost)
    elif collective == "point-to-point":
        _send(network, torus, gang, slices, nbytes, cost)
    else:
        _reduce(network, torus, gang, slices, nbytes, 2.0 if collective == "all-reduce" else 1.0, cost)
    return cost


def _reduce(
    network: Network, torus: Torus, gang: Gang, slices: Slices, nbytes: float, passes: float, cost: Cost
) -> None:
    """Each slice reduces and scatters, slices exchange their shards in a ring, and each slice gathers."""
    inside_s = 0.0
    for piece in slices.all:
        seconds = piece.reduce_s(torus, nbytes, passes)
        if seconds > inside_s:
            inside_s = seconds
        latency_s = passes * piece.latency_s(torus)
        if latency_s > cost.fixed_s:
            cost.fixed_s = latency_s
    in_machine_s = _in_machines_s(network, torus, gang, nbytes, passes)
    if in_machine_s > inside_s:
        inside_s = in_machine_s
    count = float(len(slices.all))
    if count < 2.0:
        cost.private_s = inside_s
        return
    cost.fixed_s += inside_s + passes * (count - 1.0) * 2.0 * network.latency_s[gang.domains[0][0]]
    ring = passes * (count - 1.0) / count * nbytes
    for tier in range(gang.top):
        places = _slice_of_domain(gang, slices, tier)
        for place in range(len(gang.domains[tier])):
            share = 1.0  # of what its slice sends to the next
            if places[place] >= 0:
                share = float(gang.gpus[tier][place]) / float(slices.all[places[place]].gpus)
            _load(network, gang, tier, place, share * ring, cost)


def _exchange(network: Network, torus: Torus, gang: Gang, slices: Slices, nbytes: float, cost: Cost) -> None:
    """Every GPU to every other: over the torus inside a slice, over NICs to other slices."""
    size = float(gang.size)
    for piece in slices.all:
        seconds = piece.exchange_s(torus, nbytes * float(piece.gpus) / size)
        if seconds > cost.private_s:
            cost.private_s = seconds
        latency_s = piece.latency_s(torus)
        if latency_s > cost.fixed_s:
            cost.fixed_s = latency_s
    in_machine_s = _in_machines_s(network, torus, gang, nbytes, 1.0)
    if in_machine_s > cost.private_s:
        cost.private_s = in_machine_s
    if len(slices.all) < 2:
        return
    cost.fixed_s += 2.0 * network.latency_s[gang.domains[0][0]] * float(len(slices.all) - 1)
    for tier in range(gang.top):
        places = _slice_of_domain(gang, slices, tier)
        for place in range(len(gang.domains[tier])):
            here = float(gang.gpus[tier][place])
            reached = float(slices.all[places[place]].gpus) if places[place] >= 0 else here
            _load(network, gang, tier, place, here * (size - reached) / size * nbytes, cost)


def _send(network: Network, torus: Torus, gang: Gang, slices: Slices, nbytes: float, cost: Cost) -> None:
    if gang.size != 2:
        raise InputError(f"point-to-point: {int(gang.size)} GPUs: the placement must have exactly 2")
    if len(slices.all) < 2:
        cost.private_s = nbytes / torus.rate
        cost.fixed_s = torus.latency_s
        return
    cost.fixed_s = 2.0 * network.latency_s[gang.domains[0][0]]
    for tier in range(gang.top):
        for place in range(len(gang.domains[tier])):
            _load(network, gang, tier, place, nbytes, cost)


def _in_machines_s(network: Network, torus: Torus, gang: Gang, nbytes: float, passes: float) -> float:
    """Seconds in the fabric of machines that are one node each."""
    slowest_s = 0.0
    if torus.unit > 1:
        for place in range(len(gang.domains[0])):
            count = float(gang.gpus[0][place])
            seconds = passes * (count - 1.0) / count * nbytes / network.fabric_rate[gang.domains[0][place]]
            if seconds > slowest_s:
                slowest_s = seconds
    return slowest_s


def _slice_of_domain(gang: Gang, slices: Slices, tier: i64) -> vec[i64]:
    """The one slice in which all of a domain's machines are; -1: it holds several."""
    result: vec[i64] = vec[i64]([-2] * len(gang.domains[tier]))
    for machine in range(len(gang.domains[0])):
        place: i64 = machine
        for below in range(tier):
            place = gang.parents[below][place]
        if result[place] == -2:
            result[place] = slices.of_machine[machine]
        elif result[place] != slices.of_machine[machine]:
            result[place] = -1
    return result


def _load(network: Network, gang: Gang, tier: i64, place: i64, nbytes: float, cost: Cost) -> None:
    """Put bytes on a domain's uplink."""
    if nbytes <= 0.0:
        return
    domain = gang.domains[tier][place]
    link = network.first_link[tier] + domain
    cost.links = append(cost.links, link)
    cost.seconds = append(cost.seconds, nbytes / network.rate[link])
    if tier == 0:
        own_s = nbytes / (network.gpu_nic_rate[domain] * float(gang.gpus[0][place]))
        if own_s > cost.private_s:
            cost.private_s = own_s
