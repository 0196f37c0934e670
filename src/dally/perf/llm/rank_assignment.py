"""Which rank of a large model sits on which GPU of a gang: the assignment that exposes least communication.

Groups are blocks, which fit into domains or do not. So GPUs are put in an order in which whole blocks of each
size share a domain (`_aligned`), ranks are laid along it with the groups nested in each order, and the fastest is
taken. Small gangs are improved by exchanging ranks, and tiny ones searched in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import permutations
from math import factorial, inf, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dally.cluster.hashed_paths import busiest
from dally.cluster.links import GIGA, Network
from dally.perf.gang import Gang
from dally.perf.llm.group_rates import GroupRates
from dally.perf.llm.layout import Layout

Array = NDArray[np.int64]
KINDS = ("tensor", "context", "data", "pipeline", "expert", "expert_data")
MOST_SEARCHED = 300  # assignments that differ, up to which all are tried
STARTS = 3  # candidates from which ranks are exchanged
MOST_PERMUTED = 3  # digits whose order is tried in larger gangs
MOST_EXCHANGED = 16  # GPUs of a gang, up to which ranks are exchanged


class Cables(NamedTuple):
    """Parallel cables of a tier's uplinks, over which flows are hashed."""

    number: int
    rate: float  # of one, bytes/s
    mode: int


class GangSite(NamedTuple):
    """A gang's places: per tier below the one that holds it, the domain of each machine, and rates in bytes/s."""

    machines: Array  # numbers
    gpus: Array  # in each
    domains: tuple[Array, ...]  # per tier, of each machine: their places in that tier
    links: tuple[Array, ...]  # per tier, of each domain: its link
    link_rates: tuple[NDArray[np.float64], ...]
    gpu_rate: float  # of a GPU's own NIC
    fabric_rate: float
    gpu_rates: tuple[float, ...] = ()  # per tier, what a GPU can send out of its domain
    cables: tuple[Cables | None, ...] = ()  # per tier; None: packets are sprayed
    fabric_tier: int = 0  # whose domains a fabric joins: machines, or those of the next tier


class Ranks(NamedTuple):
    """Places (in `GangSite.machines`) of ranks in the framework's order, groups' rates, and seconds of a step."""

    places: Array
    rates: GroupRates
    step_s: float


def site_of(network: Network, gang: Gang) -> GangSite:
    """What the assignment needs to know of a gang's placement."""
    machines = np.array(gang.domains[0], dtype=np.int64)
    domains = [np.arange(len(machines))]
    for tier in range(1, gang.top):
        domains.append(np.array(gang.parents[tier - 1], dtype=np.int64)[domains[-1]])
    links = [
        np.array(gang.domains[tier], dtype=np.int64) + int(network.first_link[tier]) for tier in range(gang.top)
    ]
    return GangSite(
        machines,
        np.array(gang.gpus[0], dtype=np.int64),
        tuple(domains[: gang.top]),
        tuple(links),
        tuple(np.array([network.rate[int(link)] for link in tier]) for tier in links),
        min(network.gpu_nic_rate[int(machine)] for machine in machines),
        min(network.fabric_rate[int(machine)] for machine in machines),
        tuple(_gpu_rate(network, [int(link) for link in tier]) for tier in links),
        tuple(_cables(network, [int(link) for link in tier]) for tier in links),
        int(min(network.joined[int(machine)] for machine in machines)),
    )


def _gpu_rate(network: Network, links: list[int]) -> float:
    """Of the slowest of these links, what one GPU can send through it; infinite where nothing limits it."""
    return min(network.gpu_rate[link] or inf for link in links)


def _cables(network: Network, links: list[int]) -> Cables | None:
    link = links[0]
    count = int(network.paths[link])
    if count == 0:
        return None
    rate = network.capacity_gbps[link] * GIGA * (1.0 - network.background[link]) / count
    return Cables(count, rate, int(network.hashing[link]))


def assign(site: GangSite, layout: Layout, step_s: Callable[[GroupRates], float], exact: bool = True) -> Ranks:
    """The ranks' places that make the step shortest. `exact`: search tiny gangs in full."""
    ranked = [_priced(site, layout, places, step_s) for places in _candidates(site, layout)]
    ranked.sort(key=lambda ranks: ranks.step_s)
    best = ranked[0]
    if not site.domains:
        return best
    if exact and _distinct(site) <= MOST_SEARCHED:
        for places in _all(site):
            best = _faster(best, _priced(site, layout, places, step_s))
    elif layout.gpus <= MOST_EXCHANGED:
        for start in ranked[:STARTS]:
            best = _faster(best, _exchanged(site, layout, start, step_s))
    return best


def in_machine_order(
    site: GangSite, layout: Layout, step_s: Callable[[GroupRates], float], shuffled: bool = False
) -> Ranks:
    """Ranks along the machines in the order of their numbers, or in one that knows nothing of the fabric."""
    order = np.arange(len(site.gpus))
    if shuffled:  # as the names of pods are; the same for the same machines
        order = np.array(sorted(order, key=lambda place: _digest(int(site.machines[place]))), dtype=np.int64)
    return _priced(site, layout, np.repeat(order, site.gpus[order]), step_s)


def _digest(number: int) -> bytes:
    return blake2b(str(number).encode(), digest_size=8).digest()


def _faster(one: Ranks, other: Ranks) -> Ranks:
    return other if other.step_s < one.step_s * (1 - 1e-12) else one


def _priced(site: GangSite, layout: Layout, places: Array, step_s: Callable[[GroupRates], float]) -> Ranks:
    rates = group_rates(site, layout, places)
    return Ranks(places, rates, step_s(rates))


# Candidates.


def _axes(layout: Layout) -> list[int]:
    """Degrees of the rank numbers' digits, fastest first: tensor, context, data, pipeline; without those of 1.

    Where groups of experts are a part of one of them, it is split in two.
    """
    axes: list[int] = []
    inside = 1
    for degree in (layout.tp, layout.cp, layout.dp):
        part = layout.ep // inside if layout.ep % inside == 0 else 1
        if 1 < part < degree and degree % part == 0:
            axes += [part, degree // part]
        else:
            axes.append(degree)
        inside *= degree
    return [degree for degree in (*axes, layout.pp) if degree > 1]


def _candidates(site: GangSite, layout: Layout) -> Iterator[Array]:
    """Ranks along the aligned order of GPUs, digits nested in each order."""
    axes = _axes(layout)
    fixed = (
        0 if layout.gpus <= MOST_EXCHANGED else max(1, len(axes) - MOST_PERMUTED)
    )  # tensor groups send most by far
    for rest in permutations(range(min(fixed, len(axes)), len(axes))):
        inside_out = (*range(min(fixed, len(axes))), *rest)
        sizes = {layout.ep}
        size = 1
        for axis in inside_out:
            size *= axes[axis]
            sizes.add(size)
        order = _aligned(site, sorted(sizes - {1}))
        yield _laid(order, axes, inside_out)


def _laid(order: Array, axes: list[int], inside_out: tuple[int, ...]) -> Array:
    """The place of each rank if digits nest in that order along the GPUs."""
    slowest_first = inside_out[::-1]
    cube = order.reshape([axes[axis] for axis in slowest_first])
    ranked = [slowest_first.index(axis) for axis in reversed(range(len(axes)))]
    return np.ascontiguousarray(cube.transpose(ranked)).reshape(-1)


def _aligned(site: GangSite, sizes: list[int]) -> Array:
    """Places of GPUs in an order in which whole blocks of each size lie in as few domains as can be."""
    runs = {place: _blocks([(place, int(count))], int(count), sizes) for place, count in enumerate(site.gpus)}
    for tier in range(1, len(site.domains) + 1):
        above = site.domains[tier] if tier < len(site.domains) else np.zeros(len(site.machines), dtype=np.int64)
        first: dict[int, list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]] = {}
        for child, parts in runs.items():
            parent = int(above[child if tier == 1 else int(np.argmax(site.domains[tier - 1] == child))])
            first.setdefault(parent, []).append(parts)
        runs = {}
        for parent, children in first.items():
            whole = [run for parts in sorted(children, key=lambda parts: -_count(parts[0])) for run in parts[0]]
            rest = [run for parts in sorted(children, key=lambda parts: -_count(parts[1])) for run in parts[1]]
            runs[parent] = _blocks(whole + rest, _count(whole) + _count(rest), sizes)
    whole, rest = runs[0]
    joined = whole + rest
    return np.repeat([place for place, _ in joined], [count for _, count in joined]).astype(np.int64)


def _count(runs: list[tuple[int, int]]) -> int:
    return sum(count for _, count in runs)


def _blocks(
    runs: list[tuple[int, int]], count: int, sizes: list[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Runs of GPUs cut after the last whole block of the largest size that fits: (whole, rest)."""
    fitting = [size for size in sizes if size <= count]
    cut = count - count % fitting[-1] if fitting else 0
    whole: list[tuple[int, int]] = []
    rest: list[tuple[int, int]] = []
    for place, length in runs:
        taken = min(length, cut)
        cut -= taken
        if taken:
            whole.append((place, taken))
        if length > taken:
            rest.append((place, length - taken))
    return whole, rest


# Small gangs.


def _distinct(site: GangSite) -> float:
    if site.gpus.sum() > MOST_EXCHANGED:
        return inf
    return factorial(int(site.gpus.sum())) / prod(factorial(int(count)) for count in site.gpus)


def _all(site: GangSite) -> Iterator[Array]:
    """Every assignment, GPUs of one machine taken as one."""
    left = [int(count) for count in site.gpus]
    places: list[int] = []

    def fill() -> Iterator[Array]:
        if not any(left):
            yield np.array(places, dtype=np.int64)
            return
        for place in range(len(left)):
            if left[place]:
                left[place] -= 1
                places.append(place)
                yield from fill()
                places.pop()
                left[place] += 1

    return fill()


def _exchanged(site: GangSite, layout: Layout, best: Ranks, step_s: Callable[[GroupRates], float]) -> Ranks:
    """Exchange two ranks of different machines as long as that makes the step shorter."""
    while True:
        before = best
        for one in range(layout.gpus):
            for other in range(one):
                if best.places[one] != best.places[other]:
                    places = best.places.copy()
                    places[one], places[other] = places[other], places[one]
                    best = _faster(best, _priced(site, layout, places, step_s))
        if best is before:
            return best


# Prices.


def group_size(layout: Layout, kind: str) -> int:
    """GPUs of each group of that kind; 1 where there is none."""
    if kind == "expert_data":
        return layout.gpus // layout.pp // layout.ep if layout.ep > 1 else 1
    sizes = {"tensor": layout.tp, "context": layout.cp, "data": layout.dp * layout.cp, "pipeline": layout.pp}
    return sizes.get(kind, layout.ep)


def members(layout: Layout, kind: str) -> Array:
    """Ranks of each group of that kind, a row a group."""
    ranks = np.arange(layout.gpus).reshape(layout.pp, layout.dp, layout.cp, layout.tp)
    if kind == "tensor":
        return ranks.reshape(-1, layout.tp)
    if kind == "context":
        return ranks.transpose(0, 1, 3, 2).reshape(-1, layout.cp)
    if kind == "data":  # with context: weights are the same in all parts of a sequence
        return ranks.transpose(0, 3, 1, 2).reshape(-1, layout.dp * layout.cp)
    if kind == "pipeline":
        return ranks.transpose(1, 2, 3, 0).reshape(-1, layout.pp)
    stages = ranks.reshape(layout.pp, -1, layout.ep)
    if kind == "expert":
        return stages.reshape(-1, layout.ep)
    return stages.transpose(0, 2, 1).reshape(-1, stages.shape[1])


class Crossing(NamedTuple):
    """Of one kind and tier: rings that leave each domain, their fewest members in one, the most domains of one."""

    rings: Array
    least_members: int
    most_domains: int


def crossing(groups: Array, domain_of_rank: Array, count: int) -> Crossing | None:
    """How the groups cross the domains of a tier; None if none does."""
    domains = domain_of_rank[groups]
    leaving = np.flatnonzero((domains != domains[:, :1]).any(axis=1))
    if not len(leaving):
        return None
    cells = np.bincount(
        (np.arange(len(leaving))[:, None] * count + domains[leaving]).ravel(), minlength=len(leaving) * count
    ).reshape(len(leaving), count)
    touched = cells > 0
    return Crossing(touched.sum(axis=0), int(cells[touched].min()), int(touched.sum(axis=1).max()))


def group_rates(site: GangSite, layout: Layout, places: Array) -> GroupRates:
    """Rates of the slowest group of each kind: uplinks are shared by the rings of a kind that leave a domain."""
    rates = dict.fromkeys(KINDS, site.fabric_rate)
    expert_domains = 1.0
    nic_rate = site.fabric_rate
    for kind in KINDS:
        if group_size(layout, kind) == 1:
            continue
        groups = members(layout, kind)
        for tier, domains in enumerate(site.domains):
            crossed = crossing(groups, domains[places], len(site.links[tier]))
            if crossed is None:
                break  # nor does it leave a larger domain
            used = crossed.rings > 0
            if kind == "expert" and tier < site.fabric_tier:
                continue  # the fabric goes on
            if kind == "expert":
                counts = np.bincount(domains, weights=site.gpus, minlength=len(site.links[tier]))
                per_gpu = float((site.link_rates[tier] / counts)[used].min())
                nic_rate = min(nic_rate, site.gpu_rate, site.gpu_rates[tier], per_gpu)
                if tier == 0 or tier == site.fabric_tier:  # a token goes once to each domain of the fabric
                    expert_domains = float(crossed.most_domains)
                continue
            shared = float((site.link_rates[tier][used] / crossed.rings[used]).min())
            members_there = 1 if kind == "pipeline" else crossed.least_members
            own = min(site.gpu_rate, site.gpu_rates[tier]) * members_there
            rates[kind] = min(rates[kind], shared, own)
            cables = site.cables[tier]
            if cables is not None:
                flows = int(crossed.rings.max()) * members_there
                rates[kind] = min(
                    rates[kind], members_there * cables.rate / busiest(flows, cables.number, cables.mode)
                )
    return GroupRates(
        rates["tensor"], rates["context"], rates["data"], rates["pipeline"], rates["expert_data"],
        site.fabric_rate, nic_rate, expert_domains,
    )  # fmt: skip
