"""The network under a topology: what a preset or a file says of it, and flat arrays with one entry per link.

A link is the uplink of one domain: a machine's NICs, a rack's uplink and so on. Capacities are per direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.hashed_paths import attained
from dally.cluster.topology import Link, Machine, Topology
from dally.cluster.torus import Torus, torus_of
from dally.errors import InputError
from dally.parsed_text import ACCEPTED, is_on
from dally.pickles import picklable

FABRICS = ("nvswitch", "nvlink-mesh", "pcie")
ALGORITHMS = ("ring", "hierarchical", "tree", "nvls")
ALIGNED, BY_MACHINE, SHUFFLED = "aligned", "machines", "shuffled"
RANK_ORDERS = (ALIGNED, BY_MACHINE, SHUFFLED)
SPRAY, HASH, WORST = "spray", "hash", "worst"
ROUTINGS = (SPRAY, HASH, WORST)  # how flows find their way over parallel cables
FAIR = "fair"
LINK_SHARINGS = (FAIR, "adadual", "cassini", "crux")  # how jobs share links (perf/sharings.py)
FASTEST, AS_NCCL = "fastest", "nccl"
CHOICES = (FASTEST, AS_NCCL)  # which algorithm `auto` runs: the fastest, or the one that NCCL expects to be
GIGA = 1e9


class Links(NamedTuple):
    """What a preset states, machine by machine and tier by tier; every field can be overridden.

    Bandwidths are GB/s (10^9 bytes) each direction. The efficiencies are the shares of them that a
    collective attains; `*_root_s` is the seconds per √byte that large messages need to get up to speed.
    """

    name: str = "plain"
    fabric: str = "nvswitch"
    fabric_gbps: float = 300.0  # per GPU
    fabric_latency_s: float = 5e-7  # per hop: a switch is two hops, a mesh or bus one
    fabric_efficiency: float = 1.0
    nvls_efficiency: float = 0.0  # of fabric_gbps, with reduction in the switch; 0: it cannot do that
    fabric_root_s: float = 0.0  # when the gang sits in one machine
    nic_count: int = 1  # per machine
    nic_gbps: float = 25.0  # each
    nic_latency_s: float = 2.5e-6  # per hop
    nic_efficiency: float = 1.0
    tree_efficiency: float = 1.0  # of what rings attain on NICs and uplinks: a tree's inner nodes have two children
    root_s: float = 0.0  # when it leaves the machine
    uplink_gbps: float = 0.0  # per domain above the machines; 0: by oversubscription
    oversubscription: float = 1.0  # of what hangs below
    uplink_latency_s: float = 5e-6  # per hop
    uplink_efficiency: float = 1.0
    background: float = 0.0  # share of every NIC and uplink that others take
    sharing_penalty: float = 0.0  # time lost for each transfer beside another, as a share of its time alone
    algorithms: str = "ring hierarchical tree nvls"  # what `auto` chooses from
    # Efficiencies 1, no √ term, and what simulators with such links run: the hierarchical algorithm, one
    # phase after the other unless chunks are asked for.
    ideal: bool = False
    # Fabrics beyond one machine and one cable.
    domain_fabric_gbps: float = 0.0  # per GPU, between the machines of a domain of the next tier (NVL72); 0: none
    upper_oversubscription: float = 0.0  # above the first tier of switches; 0: as oversubscription
    rails: int = 0  # leaf switches side by side in the first tier above machines; 0: one
    uplinks: int = 0  # cables of each domain above the machines; 0: not known
    ranks: str = ALIGNED  # of large models: aligned, or along machines by number, or in an order without sense
    routing: str = SPRAY  # over them: packets sprayed (or adaptive), flows hashed, or the worst of hashing
    sharing: str = FAIR  # of links, by jobs whose policy has no way of its own
    planes: int = 0  # fabrics side by side, to each of which a NIC sends the same; 0: one
    torus: str = ""  # shapes of slices, that of a machine first, of a block last; `joined`: blocks join in a pod
    torus_gbps: float = 0.0  # of one link of it
    chooses: str = FASTEST  # among the algorithms: the fastest, or as NCCL does, by what it expects of each


class Network:
    """Every link of a topology in flat arrays, rates in bytes/s as a collective attains them."""

    __slots__ = (
        "algorithms", "background", "bus", "capacity_gbps", "chooses", "chunks", "fabric_latency_s", "fabric_rate",
        "fabric_root_s", "first_link", "gpu_nic_rate", "gpu_rate", "hashing", "joined", "latency_s", "mesh", "name",
        "nvls_rate", "paths", "ranks", "rate", "root_s", "sharing", "sharing_penalty", "topology",
        "torus", "tree_efficiency",
    )  # fmt: skip

    def __init__(self, topology: Topology, name: str) -> None:
        self.topology: Topology = topology
        self.name: str = name
        self.algorithms: str = ""
        self.chooses: str = FASTEST
        self.chunks: i64 = 0  # 0: tiers fully pipelined
        self.fabric_root_s: float = 0.0
        self.root_s: float = 0.0
        self.tree_efficiency: float = 1.0
        self.sharing: str = FAIR
        self.sharing_penalty: float = 0.0
        self.ranks: str = ALIGNED
        self.torus: Torus | None = None
        # Per machine.
        self.fabric_rate: vec[float] = vec[float]()  # per GPU
        self.fabric_latency_s: vec[float] = vec[float]()  # per step
        self.nvls_rate: vec[float] = vec[float]()  # 0: none
        self.gpu_nic_rate: vec[float] = vec[float]()  # what one GPU can send out of its machine
        self.mesh: vec[i64] = vec[i64]()
        self.bus: vec[i64] = vec[i64]()  # 1: PCIe, which GPUs and NICs share
        self.joined: vec[i64] = vec[i64]()  # 1: its uplink is a fabric that joins the machines of its domain
        # Per link: those of tier t begin at first_link[t].
        self.first_link: vec[i64] = vec[i64]()
        self.capacity_gbps: vec[float] = vec[float]()
        self.background: vec[float] = vec[float]()
        self.rate: vec[float] = vec[float]()  # background taken off
        self.latency_s: vec[float] = vec[float]()
        self.gpu_rate: vec[float] = vec[float]()  # what one GPU can send through it, above machines; 0: all
        self.paths: vec[i64] = vec[i64]()  # cables over which flows are hashed; 0: none are
        self.hashing: vec[i64] = vec[i64]()  # 0: packets are sprayed; 1: flows are hashed; 2: as badly as can be

    def link_count(self) -> i64:
        """How many links there are."""
        return len(self.rate)

    def link_name(self, link: int) -> str:
        """The tier and the name of the domain whose uplink it is."""
        tier = 0
        while tier + 1 < len(self.first_link) and link >= self.first_link[tier + 1]:
            tier += 1
        return f"{self.topology.tiers[tier]} {self.topology.names[tier][link - self.first_link[tier]]}"


picklable(Network, Topology(["machine", "network"], [Machine((), "", 1)]), "")


def has_links(topology: Topology) -> bool:
    """Whether the topology's file states any bandwidth."""
    return any(
        link.capacity_gbps > 0 or link.fabric_gbps > 0 or link.oversubscription > 0 or link.torus_gbps > 0
        for tier in topology.links
        for link in tier
    )


def connect(topology: Topology, links: Links, congestion: float | Mapping[str, float] | None = None) -> Network:
    """The topology's network: what its file states, and what the preset says where the file is silent.

    `congestion` is the background load on every link above the machine's fabric, or one per tier name.
    """
    check_links(links)
    shares = _congestion(topology, congestion)
    network = Network(topology, links.name)
    network.algorithms = "hierarchical" if links.ideal else links.algorithms
    network.chooses = links.chooses
    network.chunks = 1 if links.ideal else 0
    network.fabric_root_s = 0.0 if links.ideal else links.fabric_root_s
    network.root_s = 0.0 if links.ideal else links.root_s
    network.tree_efficiency = 1.0 if links.ideal else links.tree_efficiency
    network.sharing = links.sharing
    network.sharing_penalty = links.sharing_penalty
    network.ranks = links.ranks
    network.torus = torus_of(topology, links.torus, links.torus_gbps, links.fabric_latency_s)
    _add_fabrics(network, links)
    below: list[float] = []
    for tier in range(len(topology.tiers) - 1):
        network.first_link = append(network.first_link, len(network.rate))
        capacities: list[float] = []
        for domain, stated in enumerate(topology.links[tier]):
            capacity_gbps = _capacity_gbps(topology, links, tier, domain, stated, below)
            capacities.append(capacity_gbps)
            joined = tier == 0 and network.joined[domain] == 1
            if joined:  # NICs are the domain's way out; its machines meet in the fabric
                capacity_gbps = _joining_gbps(topology, links, domain) * int(topology.gpus[0][domain])
            latency_s = links.nic_latency_s if tier == 0 else links.uplink_latency_s
            efficiency = links.nic_efficiency if tier == 0 else links.uplink_efficiency
            efficiency = stated.efficiency or efficiency
            background = stated.background if stated.background >= 0 else links.background
            background = shares.get(topology.tiers[tier], background)
            if joined:
                latency_s, efficiency, background = links.fabric_latency_s, links.fabric_efficiency, 0.0
            attained_share = 1.0 if links.ideal else efficiency
            network.capacity_gbps = append(network.capacity_gbps, capacity_gbps)
            network.background = append(network.background, background)
            network.rate = append(network.rate, capacity_gbps * GIGA * attained_share * (1.0 - background))
            network.latency_s = append(network.latency_s, (0.0 if joined else stated.latency_s) or latency_s)
            _add_paths(network, links, tier, domain, stated)
        below = capacities
        if tier == 0:
            nics = capacities
    _limit_gpus(network, links, nics)
    return network


def _joining_gbps(topology: Topology, links: Links, machine: int) -> float:
    """Of one GPU, on the fabric that joins its machine to others of its domain; 0: there is none."""
    if len(topology.tiers) < 3:  # the domain would be the whole network
        return 0.0
    return topology.links[1][int(topology.parents[0][machine])].fabric_gbps or links.domain_fabric_gbps


def _add_paths(network: Network, links: Links, tier: int, domain: int, stated: Link) -> None:
    """The cables of the link that was added last. Hashing loses what it does when all GPUs below send at once."""
    rails = cables = 0
    mode: i64 = 0
    if tier > 0:
        rails = int(stated.rails) or (links.rails if tier == 1 else 0)
        cables = int(stated.uplinks) or links.uplinks
        cables //= int(stated.planes) or links.planes or 1  # a flow takes one in each plane: they act as one
        mode = ROUTINGS.index(stated.routing or links.routing)
    link: i64 = len(network.rate) - 1
    if cables < 2 or mode == 0:
        cables, mode = 0, 0
    network.gpu_rate = append(network.gpu_rate, network.rate[link] / float(rails) if rails > 1 else 0.0)
    network.paths = append(network.paths, cables)
    network.hashing = append(network.hashing, mode)
    if mode > 0:
        flows = network.topology.gpus[tier][domain]
        network.rate[link] = network.rate[link] * attained(flows, cables, mode)


def at_share(network: Network, share: float) -> Network:
    """The same network with that share of the bandwidth of every link above the machines' fabrics."""
    result = Network(network.topology, network.name)
    result.algorithms = network.algorithms
    result.chooses = network.chooses
    result.chunks = network.chunks
    result.fabric_root_s = network.fabric_root_s
    result.root_s = network.root_s
    result.tree_efficiency = network.tree_efficiency
    result.sharing = network.sharing
    result.sharing_penalty = network.sharing_penalty
    result.ranks = network.ranks
    result.torus = network.torus
    result.fabric_rate = network.fabric_rate
    result.fabric_latency_s = network.fabric_latency_s
    result.nvls_rate = network.nvls_rate
    result.gpu_nic_rate = vec[float]([rate * share for rate in network.gpu_nic_rate])
    result.mesh = network.mesh
    result.bus = network.bus
    result.first_link = network.first_link
    result.capacity_gbps = vec[float]([gbps * share for gbps in network.capacity_gbps])
    result.background = network.background
    result.rate = vec[float]([rate * share for rate in network.rate])
    result.latency_s = network.latency_s
    result.joined = network.joined
    result.gpu_rate = vec[float]([rate * share for rate in network.gpu_rate])
    result.paths = network.paths
    result.hashing = network.hashing
    return result


def narrow(network: Network, shares: Mapping[int, float]) -> Network:
    """The same network with these links at a share of their bandwidth: a machine's NICs, a rack's uplink."""
    result = at_share(network, 1.0)
    for link, share in shares.items():
        result.rate[link] *= share
        result.capacity_gbps[link] *= share
        if link < len(result.gpu_nic_rate):  # the first links are the machines'
            result.gpu_nic_rate[link] *= share
    return result


def _add_fabrics(network: Network, links: Links) -> None:
    for machine, stated in enumerate(network.topology.links[0]):
        joined = _joining_gbps(network.topology, links, machine) > 0.0
        network.joined = append(network.joined, 1 if joined else 0)
        kind = stated.fabric or links.fabric
        gbps = stated.fabric_gbps or links.fabric_gbps
        hops = 2.0 if kind == "nvswitch" else 1.0
        attained = 1.0 if links.ideal else links.fabric_efficiency
        nvls = links.nvls_efficiency if kind == "nvswitch" else 0.0
        latency_s = stated.fabric_latency_s or links.fabric_latency_s
        network.fabric_rate = append(network.fabric_rate, gbps * GIGA * attained)
        network.fabric_latency_s = append(network.fabric_latency_s, hops * latency_s)
        network.nvls_rate = append(network.nvls_rate, gbps * GIGA * nvls)
        network.mesh = append(network.mesh, 1 if kind == "nvlink-mesh" else 0)
        network.bus = append(network.bus, 1 if kind == "pcie" else 0)


def _limit_gpus(network: Network, links: Links, nics: list[float]) -> None:
    """One GPU drives one NIC, or its share when there are more NICs than GPUs; ideal NICs are one pipe.

    Where a fabric joins machines, a GPU has its own share of it, and its NIC limits it out of the domain.
    """
    topology = network.topology
    for machine in range(topology.machine_count()):
        gpus = int(topology.gpus[0][machine])
        share = 1.0 if links.ideal else max(1.0 / links.nic_count, 1.0 / gpus)
        if network.joined[machine] == 0:
            network.gpu_nic_rate = append(network.gpu_nic_rate, network.rate[machine] * share)
            continue
        network.gpu_nic_rate = append(network.gpu_nic_rate, network.rate[machine] / gpus)
        link = network.first_link[1] + topology.parents[0][machine]
        attained_share = 1.0 if links.ideal else links.nic_efficiency
        own = nics[machine] * GIGA * attained_share * share * (1.0 - network.background[link])
        if network.gpu_rate[link] == 0.0 or own < network.gpu_rate[link]:
            network.gpu_rate[link] = own


def _capacity_gbps(
    topology: Topology, links: Links, tier: int, domain: int, stated: Link, below: list[float]
) -> float:
    if stated.capacity_gbps > 0:
        return stated.capacity_gbps
    if tier == 0:
        return links.nic_count * links.nic_gbps
    if stated.oversubscription <= 0 and links.uplink_gbps > 0:
        return links.uplink_gbps
    first = int(topology.first_children[tier][domain])
    children = below[first : first + int(topology.child_counts[tier][domain])]
    usual = (
        links.upper_oversubscription if tier > 1 and links.upper_oversubscription > 0 else links.oversubscription
    )
    return sum(children) / (stated.oversubscription or usual)


def _congestion(topology: Topology, congestion: float | Mapping[str, float] | None) -> dict[str, float]:
    if congestion is None:
        return {}
    if isinstance(congestion, (int, float)):
        congestion = dict.fromkeys(topology.tiers[:-1], float(congestion))
    for tier, share in congestion.items():
        if tier not in topology.tiers[:-1]:
            raise InputError(f"congestion: {tier!r}: no such tier; known: {', '.join(topology.tiers[:-1])}")
        if not 0.0 <= share < 1.0:
            raise InputError(f"congestion: {share!r}: must be a share of capacity from 0 to below 1")
    return dict(congestion)


def override(links: Links, values: Mapping[str, Any]) -> Links:
    """The preset with these fields changed; values may be text, as a command line gives them."""
    changes: dict[str, Any] = {}
    for key, value in values.items():
        if key not in links._fields or key == "name":
            known = ", ".join(field for field in links._fields if field != "name")
            raise InputError(f"network: {key}: unknown; known: {known}")
        changes[key] = _typed(key, value, getattr(links, key))
    return check_links(links._replace(**changes))


def _typed(key: str, value: Any, like: Any) -> Any:
    try:
        if isinstance(like, bool):
            return is_on(value)
        return type(like)(value)
    except ValueError:
        desired = ACCEPTED if isinstance(like, bool) else f"a {type(like).__name__}"
        raise InputError(f"network: {key}: {value!r}: must be {desired}") from None


def check_links(links: Links) -> Links:
    """The same links, or an InputError that names the field and what would be accepted."""
    for key, value in links._asdict().items():
        if isinstance(value, str):
            continue
        if key == "background":
            fine, desired = 0.0 <= value < 1.0, "a share from 0 to below 1"
        elif key.endswith("_efficiency"):
            fine, desired = (
                0.0 <= value <= 1.0 and (value > 0.0 or key == "nvls_efficiency"),
                "above 0, at most 1",
            )
        elif key in ("fabric_gbps", "nic_gbps", "nic_count", "oversubscription"):
            fine, desired = 0.0 < value < float("inf"), "above 0"
        else:
            fine, desired = 0.0 <= value < float("inf"), "not negative"
        if not fine:
            raise InputError(f"network: {key}: {value!r}: must be {desired}")
    if links.ranks not in RANK_ORDERS:
        raise InputError(f"network: ranks: {links.ranks!r}: must be one of {', '.join(RANK_ORDERS)}")
    if links.routing not in ROUTINGS:
        raise InputError(f"network: routing: {links.routing!r}: must be one of {', '.join(ROUTINGS)}")
    if links.chooses not in CHOICES:
        raise InputError(f"network: chooses: {links.chooses!r}: must be one of {', '.join(CHOICES)}")
    if links.sharing not in LINK_SHARINGS:
        raise InputError(f"network: sharing: {links.sharing!r}: must be one of {', '.join(LINK_SHARINGS)}")
    if links.fabric not in FABRICS:
        raise InputError(f"network: fabric: {links.fabric!r}: must be one of {', '.join(FABRICS)}")
    chosen = links.algorithms.split()
    if not chosen or not set(chosen) <= set(ALGORITHMS):
        raise InputError(f"network: algorithms: {links.algorithms!r}: must be some of {', '.join(ALGORITHMS)}")
    return links
