"""What a collective costs on a placement: latency, and seconds of every link it crosses.

Time alone = alpha + the busiest resource + the √S term. Links come separately because contention needs them.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import AS_NCCL, Network
from dally.errors import InputError
from dally.perf.costs import Cost
from dally.perf.gang import Gang
from dally.perf.own_uplinks import in_one_fabric, own_uplink_s
from dally.perf.slices import slice_cost

COLLECTIVES: Final = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "point-to-point")
ALGORITHMS: Final = ("auto", "ring", "hierarchical", "halving-doubling", "tree", "nvls")


class _Phase:
    """Bytes on the uplinks of a gang's domains in one phase, and what nobody else sees."""

    __slots__ = ("alpha_s", "bytes", "narrow", "private_s")

    def __init__(self, gang: Gang, narrow: bool = False) -> None:
        self.narrow: bool = narrow  # one machine of a domain speaks for it to the others, not all
        self.alpha_s: float = 0.0
        self.private_s: float = 0.0
        self.bytes: list[vec[float]] = []
        for tier in range(gang.top):
            self.bytes.append(vec[float]([0.0] * len(gang.domains[tier])))


def collective_cost(
    network: Network, gang: Gang, collective: str, nbytes: float, algorithm: str = "auto", chunks: i64 = -1
) -> Cost:
    """The cost of the named algorithm, or of the fastest the network's library offers.

    `nbytes` is what each GPU holds before an all-reduce, reduce-scatter or all-to-all, and after an
    all-gather. `chunks`: 1 = the tiers' phases one after the other, k = pipelined in k pieces (each pays
    the latency), 0 = pipelined without end, as NCCL does; -1 = as the network says.
    """
    if chunks < 0:
        chunks = network.chunks
    if collective != "point-to-point" and (gang.size < 2 or nbytes <= 0.0):
        return Cost()
    if network.torus is not None:
        return slice_cost(network, network.torus, gang, collective, nbytes)
    if collective == "point-to-point":
        return _point_to_point(network, gang, nbytes)
    if collective == "all-to-all":
        if algorithm == "hierarchical":
            return _all_to_all_by_tier(network, gang, nbytes, chunks)
        return _all_to_all(network, gang, nbytes)
    passes = 2.0 if collective == "all-reduce" else 1.0
    if algorithm != "auto":
        return _named(network, gang, nbytes, passes, algorithm, chunks)
    best = Cost()
    for name in network.algorithms.split():
        cost = _named(network, gang, nbytes, passes, name, chunks)
        if not best.algorithm or _expected_s(network, gang, cost) < _expected_s(network, gang, best):
            best = cost
    return best


def _expected_s(network: Network, gang: Gang, cost: Cost) -> float:
    """Seconds that a collective takes, as far as the library that chooses knows.

    NCCL's tuner expects the same of a tree over any number of machines. On two and three it puts half and three
    quarters of that on their NICs (see `_tree_across`), so that NCCL runs rings there where trees would be faster.
    """
    alone_s = cost.alone_s()
    machines: i64 = len(gang.domains[0])
    if network.chooses == AS_NCCL and cost.algorithm == "tree" and 1 < machines < 4:
        return cost.fixed_s + (alone_s - cost.fixed_s) * 4.0 / float(machines)
    return alone_s


def _named(network: Network, gang: Gang, nbytes: float, passes: float, algorithm: str, chunks: i64) -> Cost:
    if algorithm == "ring":
        cost = _ring(network, gang, nbytes, passes, chunks)
    elif algorithm == "hierarchical":
        cost = _hierarchical(network, gang, nbytes, passes, False, chunks)
    elif algorithm == "halving-doubling":
        cost = _hierarchical(network, gang, nbytes, passes, True, chunks)
    elif algorithm == "tree":
        cost = _tree(network, gang, nbytes, passes, chunks)
    else:
        assert algorithm == "nvls"
        if not _has_nvls(network, gang):  # what a library does that is asked for it on such GPUs
            cost = _tree(network, gang, nbytes, passes, chunks)
        else:
            cost = _nvls(network, gang, nbytes, passes)
    cost.algorithm = algorithm
    return cost


# The algorithms.


def _ring(network: Network, gang: Gang, nbytes: float, passes: float, chunks: i64) -> Cost:
    """One ring through all GPUs, machine by machine: each domain is entered once and left once."""
    phase = _Phase(gang, narrow=True)
    load = passes * float(gang.size - 1) / float(gang.size) * nbytes
    below = gang.size
    for tier in range(gang.top + 1):
        here: i64 = len(gang.domains[tier])
        phase.alpha_s += passes * float(below - here) * _step_s(network, gang, tier)
        below = here
        if tier < gang.top:
            for place in range(here):
                phase.bytes[tier][place] = load
    phase.private_s = _fabric_s(network, gang, load, load)
    if chunks > 1:
        phase.alpha_s *= float(chunks)
    return _cost(network, gang, [phase], nbytes, 0, 1.0)


def _hierarchical(network: Network, gang: Gang, nbytes: float, passes: float, halving: bool, chunks: i64) -> Cost:
    """Reduce-scatter inside, then across the next tier up, and back down: a phase per tier."""
    phases: list[_Phase] = []
    for tier in range(gang.top + 1):
        phase = _Phase(gang)
        steps: i64 = 0
        for place in range(len(gang.domains[tier])):
            children = gang.children[tier][place]
            logarithmic = halving and not (tier == 0 and network.mesh[gang.domains[0][place]] == 1)
            count = _log2(children) if logarithmic else children - 1
            if count > steps:
                steps = count
        phase.alpha_s = passes * float(steps) * _step_s(network, gang, tier)
        if tier == 0:
            for place in range(len(gang.domains[0])):
                count = gang.gpus[0][place]
                load = passes * float(count - 1) / float(count) * nbytes
                seconds = load / network.fabric_rate[gang.domains[0][place]]
                if seconds > phase.private_s:
                    phase.private_s = seconds
        else:
            for place in range(len(gang.domains[tier - 1])):
                children = gang.children[tier][gang.parents[tier - 1][place]]
                phase.bytes[tier - 1][place] = passes * float(children - 1) / float(children) * nbytes
            _spread_down(gang, phase, tier - 1)
        phases.append(phase)
    cost = _cost(network, gang, phases, nbytes, chunks, 1.0)
    if chunks == 0 and gang.top > 0:
        # Grouping machines by rack relieves the only GPU of a machine at the others' cost; they could be
        # grouped so inside one rack too, and a farther placement must not look better for it.
        machines: i64 = len(gang.domains[0])
        load = passes * float(machines - 1) / float(machines) * nbytes
        for place in range(machines):
            seconds = _gpu_nic_s(network, gang, place, load)
            if seconds > cost.private_s:
                cost.private_s = seconds
    return cost


def _tree(network: Network, gang: Gang, nbytes: float, passes: float, chunks: i64) -> Cost:
    """A double binary tree over the machines, a chain inside each."""
    if chunks > 0:
        return _plain_tree(network, gang, nbytes, passes, chunks)
    phase = _tree_across(network, gang, nbytes, passes)
    longest: i64 = 0
    for count in gang.gpus[0]:
        if count > longest:
            longest = count
    phase.alpha_s += passes * float(longest - 1) * _step_s(network, gang, 0)
    inner = passes * nbytes  # the middle of a chain passes everything on in both sweeps
    phase.private_s = _fabric_s(network, gang, inner, 0.5 * inner)
    return _cost(network, gang, [phase], nbytes, 0, network.tree_efficiency)


def _nvls(network: Network, gang: Gang, nbytes: float, passes: float) -> Cost:
    """Reduction in the machine's switch, a tree across machines."""
    phase = _tree_across(network, gang, nbytes, passes)
    phase.alpha_s += passes * _step_s(network, gang, 0)
    for place in range(len(gang.domains[0])):
        if gang.gpus[0][place] > 1:
            seconds = 0.5 * passes * nbytes / network.nvls_rate[gang.domains[0][place]]
            if seconds > phase.private_s:
                phase.private_s = seconds
    return _cost(network, gang, [phase], nbytes, 0, network.tree_efficiency)


def _tree_across(network: Network, gang: Gang, nbytes: float, passes: float) -> _Phase:
    """Two binary trees, each with half the bytes: a domain is an inner node of one and a leaf of the other.

    The busiest gets half from each of two children and half from its parent, and in the other tree half
    from its parent: twice the bytes in all, less when there are not enough domains for two children.
    """
    phase = _Phase(gang, narrow=True)
    for tier in range(gang.top):
        here: i64 = len(gang.domains[tier])
        for place in range(here):
            phase.bytes[tier][place] = passes * nbytes * (1.0 if here > 3 else 0.25 * float(here))
    for tier in range(1, gang.top + 1):
        phase.alpha_s += passes * float(_log2(_most(gang.children[tier]))) * _step_s(network, gang, tier)
    return phase


def _plain_tree(network: Network, gang: Gang, nbytes: float, passes: float, chunks: i64) -> Cost:
    """One level after the other, as simulators with ideal links do: every level moves the whole chunk.

    Up and down a tree of L levels is 2L hops for one chunk; the next one follows a hop behind the root.
    """
    phases: list[_Phase] = []
    levels: i64 = 0
    for tier in range(gang.top + 1):
        phase = _Phase(gang)
        count = _log2(_most(gang.children[tier]))
        levels += count
        phase.alpha_s = passes * float(count) * _step_s(network, gang, tier)
        load = passes * float(count) * nbytes
        if tier == 0:
            phase.private_s = _fabric_s(network, gang, load, load)
        else:
            for place in range(len(gang.domains[tier - 1])):
                if gang.children[tier][gang.parents[tier - 1][place]] > 1:
                    phase.bytes[tier - 1][place] = load
        phases.append(phase)
    hops = passes * float(levels)
    cost = _cost(network, gang, phases, nbytes, 1, 1.0)
    if chunks > 1 and hops > 0.0:
        alone = cost.alone_s()
        alpha = 0.0
        for phase in phases:
            alpha += phase.alpha_s
        share = (float(chunks) * (hops - 1.0) + 1.0) / hops
        cost.fixed_s += (alone - alpha) * (share / float(chunks) - 1.0) + alpha * (share - 1.0)
    return cost


def _all_to_all(network: Network, gang: Gang, nbytes: float) -> Cost:
    """Every GPU to every other directly, whatever the library runs for the other collectives."""
    phase = _Phase(gang)
    size = float(gang.size)
    for tier in range(gang.top + 1):
        phase.alpha_s += _direct_alpha_s(network, gang, tier)
        if tier < gang.top:
            for place in range(len(gang.domains[tier])):
                count = float(gang.gpus[tier][place])
                phase.bytes[tier][place] = count * (size - count) / size * nbytes
    for place in range(len(gang.domains[0])):
        machine = gang.domains[0][place]
        # A PCIe bus also carries what leaves the machine; NVLink only what stays in it.
        peers = gang.size - 1 if network.bus[machine] == 1 else gang.gpus[0][place] - 1
        seconds = float(peers) / size * nbytes / network.fabric_rate[machine]
        if seconds > phase.private_s:
            phase.private_s = seconds
    cost = _cost(network, gang, [phase], nbytes, 0, 1.0)
    cost.algorithm = "direct"
    return cost


def _all_to_all_by_tier(network: Network, gang: Gang, nbytes: float, chunks: i64) -> Cost:
    """Inside the machine first, then across each tier up: a phase per tier, all bytes in each."""
    phases: list[_Phase] = []
    for tier in range(gang.top + 1):
        phase = _Phase(gang)
        phase.alpha_s = _all_to_all_alpha_s(network, gang, tier)
        if tier == 0:
            for place in range(len(gang.domains[0])):
                count = float(gang.gpus[0][place])
                seconds = (count - 1.0) / count * nbytes / network.fabric_rate[gang.domains[0][place]]
                if seconds > phase.private_s:
                    phase.private_s = seconds
        else:
            for place in range(len(gang.domains[tier - 1])):
                count = float(gang.gpus[tier - 1][place])
                whole = float(gang.gpus[tier][gang.parents[tier - 1][place]])
                phase.bytes[tier - 1][place] = count * (whole - count) / whole * nbytes
            _spread_down(gang, phase, tier - 1)
        phases.append(phase)
    cost = _cost(network, gang, phases, nbytes, chunks, 1.0)
    cost.algorithm = "hierarchical"
    return cost


def _point_to_point(network: Network, gang: Gang, nbytes: float) -> Cost:
    if gang.size != 2:
        raise InputError(f"point-to-point: {int(gang.size)} GPUs: the placement must have exactly 2")
    phase = _Phase(gang)
    phase.alpha_s = _step_s(network, gang, gang.top)
    if gang.top == 0:
        phase.private_s = nbytes / network.fabric_rate[gang.domains[0][0]]
    for tier in range(gang.top):
        for place in range(len(gang.domains[tier])):
            phase.bytes[tier][place] = nbytes
    cost = _cost(network, gang, [phase], nbytes, 0, 1.0)
    cost.algorithm = "direct"
    return cost


# The pieces they are made of.


def _spread_down(gang: Gang, phase: _Phase, tier: i64) -> None:
    """What leaves a domain came through the uplinks below it, by each one's share of its GPUs."""
    while tier > 0:
        tier -= 1
        for place in range(len(gang.domains[tier])):
            parent = gang.parents[tier][place]
            share = float(gang.gpus[tier][place]) / float(gang.gpus[tier + 1][parent])
            phase.bytes[tier][place] = phase.bytes[tier + 1][parent] * share


def _step_s(network: Network, gang: Gang, tier: i64) -> float:
    """Latency of one step between children of a domain of that tier: up one link and down another.

    A path is never quicker than a closer one, whatever a file says of single links.
    """
    slowest = 0.0
    if tier == 0:
        for place in range(len(gang.domains[0])):
            step_s = network.fabric_latency_s[gang.domains[0][place]]
            if step_s > slowest:
                slowest = step_s
        return slowest
    for lower in range(tier):
        first = network.first_link[lower]
        for domain in gang.domains[lower]:
            step_s = 2.0 * network.latency_s[first + domain]
            if step_s > slowest:
                slowest = step_s
    return slowest


def _direct_alpha_s(network: Network, gang: Gang, tier: i64) -> float:
    """Latency that a tier adds when all send to all. On ideal links all sends go out at once: one start-up,
    up and down every link of the longest path. Libraries send in steps.
    """
    if network.chunks == 0:
        return _all_to_all_alpha_s(network, gang, tier)
    if tier == 0:
        return _step_s(network, gang, 0)
    slowest = 0.0
    for domain in gang.domains[tier - 1]:
        hops_s = 2.0 * network.latency_s[network.first_link[tier - 1] + domain]
        if hops_s > slowest:
            slowest = hops_s
    return slowest


def _all_to_all_alpha_s(network: Network, gang: Gang, tier: i64) -> float:
    steps: i64 = 0
    for place in range(len(gang.domains[tier])):
        count = gang.children[tier][place]
        hops = count - 1
        if tier == 0 and network.mesh[gang.domains[0][place]] == 1:
            hops = count * count // 4  # the sum of distances on a ring of that many
        if hops > steps:
            steps = hops
    return float(steps) * _step_s(network, gang, tier)


def _fabric_s(network: Network, gang: Gang, load: float, pair_load: float) -> float:
    """Seconds of the slowest fabric when each GPU passes on so many bytes; `pair_load`: where there are two."""
    slowest = 0.0
    for place in range(len(gang.domains[0])):
        count = gang.gpus[0][place]
        if count > 1:
            seconds = (load if count > 2 else pair_load) / network.fabric_rate[gang.domains[0][place]]
            if seconds > slowest:
                slowest = seconds
    return slowest


def _has_nvls(network: Network, gang: Gang) -> bool:
    return all(network.nvls_rate[machine] > 0.0 for machine in gang.domains[0])


def _log2(count: i64) -> i64:
    """Levels of a binary tree of that many."""
    levels: i64 = 0
    reach: i64 = 1
    while reach < count:
        reach *= 2
        levels += 1
    return levels


def _most(counts: vec[i64]) -> i64:
    most: i64 = 0
    for count in counts:
        if count > most:
            most = count
    return most


def _cost(
    network: Network, gang: Gang, phases: list[_Phase], nbytes: float, chunks: i64, efficiency: float
) -> Cost:
    """Phases put together: pipelined without end (0 chunks) or in so many chunks."""
    cost = Cost()
    alpha = 0.0
    for phase in phases:
        alpha += phase.alpha_s
    busiest = _sum_links(network, gang, phases, efficiency, cost)
    if chunks == 0:
        root_s = network.fabric_root_s if in_one_fabric(network, gang) else network.root_s
        cost.fixed_s = alpha + root_s * sqrt(nbytes)
    else:
        # Chunks of different phases may meet on a NIC, which then takes longer than any one phase.
        times = [_busiest_s(network, gang, phase, efficiency) for phase in phases]
        rest = _chunked_s(phases, times, float(chunks)) - busiest
        cost.fixed_s = rest if rest > alpha else alpha
    return cost


def _busiest_s(network: Network, gang: Gang, phase: _Phase, efficiency: float) -> float:
    """Seconds that one phase takes, latency apart."""
    busiest = phase.private_s
    for tier in range(gang.top):
        first = network.first_link[tier]
        for place in range(len(gang.domains[tier])):
            seconds = phase.bytes[tier][place] / (network.rate[first + gang.domains[tier][place]] * efficiency)
            if tier == 0:
                seconds_of_gpus = _gpu_nic_s(network, gang, place, phase.bytes[0][place]) / efficiency
                if seconds_of_gpus > seconds:
                    seconds = seconds_of_gpus
            else:
                seconds_of_gpus = own_uplink_s(network, gang, phase.narrow, tier, place, phase.bytes[tier][place])
                if seconds_of_gpus / efficiency > seconds:
                    seconds = seconds_of_gpus / efficiency
            if seconds > busiest:
                busiest = seconds
    return busiest


def _sum_links(network: Network, gang: Gang, phases: list[_Phase], efficiency: float, cost: Cost) -> float:
    """Fill in the cost's links and private seconds; the seconds of the busiest."""
    for phase in phases:
        if phase.private_s > cost.private_s:
            cost.private_s = phase.private_s
    busiest = 0.0
    for tier in range(gang.top):
        first = network.first_link[tier]
        domains = gang.domains[tier]
        loads = vec[float]([0.0] * len(domains))
        for phase in phases:
            nbytes = phase.bytes[tier]
            for place in range(len(domains)):
                loads[place] += nbytes[place]
        for place in range(len(domains)):
            load = loads[place]
            if load <= 0.0:
                continue
            link = first + domains[place]
            seconds = load / (network.rate[link] * efficiency)
            cost.links = append(cost.links, link)
            cost.seconds = append(cost.seconds, seconds)
            if seconds > busiest:
                busiest = seconds
            if tier == 0:
                own_s = _gpu_nic_s(network, gang, place, load) / efficiency
            else:
                own_s = own_uplink_s(network, gang, phases[0].narrow, tier, place, load) / efficiency
            if own_s > cost.private_s:
                cost.private_s = own_s
    return busiest if busiest > cost.private_s else cost.private_s


def _gpu_nic_s(network: Network, gang: Gang, place: i64, load: float) -> float:
    """Seconds the gang's own GPUs in one machine need to push that load to their NICs."""
    return load / (network.gpu_nic_rate[gang.domains[0][place]] * float(gang.gpus[0][place]))


def _chunked_s(phases: list[_Phase], times: list[float], chunks: float) -> float:
    """Seconds until the last chunk is through: the slowest phase is busy with every chunk,

    and the first one reaches it, and the last one leaves it, through the phases below.
    """
    one = 0.0
    longest = 0.0
    for place in range(len(phases)):
        chunk_s = phases[place].alpha_s + times[place] / chunks
        busy = one + chunks * chunk_s
        if busy > longest:
            longest = busy
        one += chunk_s
    return one if one > longest else longest
