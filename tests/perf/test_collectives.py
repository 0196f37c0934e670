"""Hand-computed costs, and properties that must hold on any network."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from benchmarks import astra
from hypothesis import given, settings
from hypothesis import strategies as st

from dally import Cluster, collective_time
from dally.cluster.links import Links, connect, override
from dally.cluster.presets import find_preset
from dally.cluster.topology import Machine, Topology, grid
from dally.errors import InputError
from dally.perf.collectives import COLLECTIVES, collective_cost
from dally.perf.queries import placed
from tests.examples import many

MB = 1e6


def ideal(**changes: float) -> Cluster:
    values: dict[str, float] = {"intra_gbps": 300, "nic_gbps": 25, "uplink_gbps": 50, **changes}
    return Cluster.grid(racks=2, machines=4, gpus=8, ideal=True, **values)


# 1 chunk on ideal links, S = 100 MB. Fabric step 1 µs, NIC step 5 µs, uplink step 10 µs.
BY_HAND: list[tuple[str, str, str, Mapping[int, int], float]] = [
    ("one machine", "all-reduce", "ring", {0: 8}, 14 * 1e-6 + 2 * 7 / 8 * 100e6 / 300e9),
    ("reduce-scatter is half", "reduce-scatter", "ring", {0: 8}, 7e-6 + 7 / 8 * 100e6 / 300e9),
    ("all-gather is the other", "all-gather", "ring", {0: 8}, 7e-6 + 7 / 8 * 100e6 / 300e9),
    # Flat ring: the NIC carries 2·15/16·S; 14 hops inside, 1 across, each way twice.
    ("ring over a rack", "all-reduce", "ring", {0: 8, 1: 8}, 2 * 14e-6 + 2 * 5e-6 + 2 * 15 / 16 * 100e6 / 25e9),
    (
        "hierarchical over a rack", "all-reduce", "hierarchical", {0: 8, 1: 8},
        14e-6 + 2 * 7 / 8 * 100e6 / 300e9 + 2 * 5e-6 + 100e6 / 25e9,
    ),
    # Across racks the NIC (25) is still slower than the uplink (50); a path's latency is its slowest link's.
    (
        "hierarchical over racks", "all-reduce", "hierarchical", {0: 8, 4: 8},
        14e-6 + 2 * 7 / 8 * 100e6 / 300e9 + 2 * 10e-6 + 100e6 / 25e9,
    ),
    # 2 racks × 2 machines: NIC phase S at 25; rack phase S at 50 on the uplink, S/2 at 25 on each NIC.
    (
        "three tiers", "all-reduce", "hierarchical", {0: 8, 1: 8, 4: 8, 5: 8},
        14e-6 + 2 * 7 / 8 * 100e6 / 300e9 + 2 * 5e-6 + 100e6 / 25e9 + 2 * 10e-6 + 100e6 / 50e9,
    ),
    # 5+3 as it is: the larger part's fabric has 2·4/5·S, the NICs S each.
    (
        "uneven", "all-reduce", "hierarchical", {0: 5, 1: 3},
        8e-6 + 2 * 4 / 5 * 100e6 / 300e9 + 2 * 5e-6 + 100e6 / 25e9,
    ),
    ("halving-doubling", "all-reduce", "halving-doubling", {0: 8}, 6e-6 + 2 * 7 / 8 * 100e6 / 300e9),
    ("plain tree: up and down 3 levels", "all-reduce", "tree", {0: 8}, 6 * (1e-6 + 100e6 / 300e9)),
    # Direct, all sends at once: up and down each link of the path. g(N - g)/N·S on a NIC, with g = 5 and 3 alike.
    ("all-to-all inside", "all-to-all", "auto", {0: 8}, 1e-6 + 7 / 8 * 100e6 / 300e9),
    ("all-to-all over a rack", "all-to-all", "auto", {0: 5, 1: 3}, 1e-6 + 5e-6 + 15 / 8 * 100e6 / 25e9),
    # 16 GPUs in a rack of 32: 16·16/32·S at 50 on its uplink is less than 8·24/32·S at 25 on a NIC.
    (
        "all-to-all over racks", "all-to-all", "auto", {0: 8, 1: 8, 4: 8, 5: 8},
        1e-6 + 5e-6 + 10e-6 + 6 * 100e6 / 25e9,
    ),
    # A phase per tier.
    (
        "all-to-all by tier", "all-to-all", "hierarchical", {0: 5, 1: 3},
        4e-6 + 4 / 5 * 100e6 / 300e9 + 5e-6 + 15 / 8 * 100e6 / 25e9,
    ),
    ("point to point", "point-to-point", "auto", {0: 1, 4: 1}, 10e-6 + 100e6 / 25e9),
    ("point to point inside", "point-to-point", "auto", {3: 2}, 1e-6 + 100e6 / 300e9),
    ("one GPU has nobody to talk to", "all-reduce", "auto", {2: 1}, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "collective", "algorithm", "placement", "seconds"), BY_HAND)
def test_by_hand(name: str, collective: str, algorithm: str, placement: Mapping[int, int], seconds: float) -> None:
    found = collective_time(ideal(), collective, 100 * MB, placement, algorithm)
    assert found == pytest.approx(seconds, rel=1e-9), name


def test_chunks_pipeline_the_tiers() -> None:
    """16 chunks: the NIC phase is busy with all of them, the fabric only with the first in and the last out."""
    inside = 14e-6 + 2 * 7 / 8 * 100e6 / 16 / 300e9
    across = 10e-6 + 100e6 / 16 / 25e9
    found = collective_time(ideal(), "all-reduce", 100 * MB, {0: 8, 1: 8}, "hierarchical", chunks=16)
    assert found == pytest.approx(16 * across + inside)
    endless = collective_time(ideal(), "all-reduce", 100 * MB, {0: 8, 1: 8}, "hierarchical", chunks=0)
    assert endless == pytest.approx(14e-6 + 10e-6 + 100e6 / 25e9)


def test_links_come_separately() -> None:
    network = ideal().network
    assert network is not None
    cost = collective_cost(network, placed(network, {0: 8, 1: 8, 4: 8, 5: 8}), "all-reduce", 100e6, "hierarchical")
    seconds = {network.link_name(int(link)): s for link, s in zip(cost.links, cost.seconds, strict=True)}
    assert seconds["machine rack0-m0"] == pytest.approx(1.5 * 100e6 / 25e9)  # S in its rack, S/2 of what leaves it
    assert seconds["rack rack1"] == pytest.approx(100e6 / 50e9)
    assert len(seconds) == 6


def test_real_links_cost_efficiency_and_root() -> None:
    links = Links(fabric_gbps=300, fabric_efficiency=0.8, fabric_root_s=1e-8, algorithms="ring")
    network = connect(grid(1, 1, 8), links)
    cost = collective_cost(network, placed(network, {0: 8}), "all-reduce", 1e8)
    assert cost.alone_s() == pytest.approx(14e-6 + 1.75 * 1e8 / 240e9 + 1e-8 * 1e4)
    perfect = connect(grid(1, 1, 8), links._replace(ideal=True))
    assert (
        collective_cost(perfect, placed(perfect, {0: 8}), "all-reduce", 1e8).alone_s() < 14e-6 + 1.76 * 1e8 / 300e9
    )


@pytest.mark.parametrize("algorithms", ["ring", "tree", "hierarchical"])
def test_all_to_all_is_direct_whatever_the_library_lists(algorithms: str) -> None:
    network = connect(grid(1, 2, 8), Links(nic_gbps=25, algorithms=algorithms))
    assert collective_cost(network, placed(network, {0: 8, 1: 8}), "all-to-all", 1e8).algorithm == "direct"


def test_a_bus_also_carries_what_leaves_the_machine() -> None:
    private = []
    for fabric in ("nvswitch", "pcie"):
        network = connect(grid(1, 2, 8), Links(fabric=fabric, fabric_gbps=12, nic_gbps=400))
        private.append(collective_cost(network, placed(network, {0: 8, 1: 8}), "all-to-all", 1e9).private_s)
    assert private == pytest.approx([7 / 16 * 1e9 / 12e9, 15 / 16 * 1e9 / 12e9])


@pytest.mark.skipif(not astra.EXCHANGES.exists(), reason="the reference measurements are not here")
def test_all_to_all_agrees_with_packet_level_runs() -> None:
    errors = [run.error() for run in astra.read_exchanges()]
    assert len(errors) > 30
    assert sum(errors) / len(errors) <= 0.01


def test_nvls_reduces_in_the_switch() -> None:
    links = Links(fabric_gbps=450, fabric_efficiency=0.8, nvls_efficiency=0.6)
    network = connect(grid(1, 1, 8), links)
    gang = placed(network, {0: 8})
    assert collective_cost(network, gang, "all-reduce", 1e9, "nvls").private_s == pytest.approx(1e9 / 270e9)
    assert collective_cost(network, gang, "all-reduce", 1e9).algorithm == "nvls"


def test_tree_loads_two_machines_less_than_many() -> None:
    network = connect(grid(1, 8, 8), Links(nic_gbps=200, algorithms="tree"))
    two = collective_cost(network, placed(network, {0: 8, 1: 8}), "all-reduce", 1e9, "tree")
    many = collective_cost(network, placed(network, dict.fromkeys(range(8), 8)), "all-reduce", 1e9, "tree")
    assert list(two.seconds) == pytest.approx([1e9 / 200e9] * 2)
    assert list(many.seconds) == pytest.approx([2e9 / 200e9] * 8)


def test_a_gang_drives_no_more_nics_than_it_has_gpus() -> None:
    network = connect(grid(1, 2, 8), Links(nic_count=8, nic_gbps=50))
    cost = collective_cost(network, placed(network, {0: 2, 1: 2}), "all-reduce", 1e9, "hierarchical")
    assert cost.private_s == pytest.approx(1e9 / 100e9)
    assert list(cost.seconds) == pytest.approx([1e9 / 400e9] * 2)


def test_uneven_machines_and_depth() -> None:
    machines = [
        Machine(("pod0", "rack0"), "a", 4), Machine(("pod0", "rack0"), "b", 8),
        Machine(("pod0", "rack1"), "c", 2), Machine(("pod1", "rack2"), "d", 8),
    ]  # fmt: skip
    network = connect(Topology(["machine", "rack", "pod", "network"], machines), Links(ideal=True))
    cluster = Cluster(network.topology, network)
    for placement in ({0: 4, 1: 8}, {0: 4, 2: 2}, {0: 3, 1: 5, 2: 1, 3: 7}):
        assert collective_time(cluster, "all-reduce", 1e8, placement) > 0
    with pytest.raises(InputError, match="machine 2: 3 GPUs"):
        collective_time(cluster, "all-reduce", 1e8, {2: 3})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"collective": "all-the-things"}, "all-the-things"),
        ({"algorithm": "magic"}, "magic"),
        ({"placement": {99: 1}}, "machine 99"),
        ({"placement": {0: 9}}, "9 GPUs"),
        ({"placement": {}}, "no machine"),
        ({"nbytes": -1.0}, "-1"),
        ({"collective": "point-to-point"}, "exactly 2"),
    ],
)
def test_bad_questions_name_field_and_value(call: dict[str, object], words: str) -> None:
    question = {
        "collective": "all-reduce",
        "nbytes": 1e6,
        "placement": {0: 8, 1: 8},
        "algorithm": "auto",
        **call,
    }
    with pytest.raises(InputError, match=words):
        collective_time(ideal(), **question)  # type: ignore[arg-type]


# Properties. Gangs on 2 pods × 2 racks × 3 machines of 8.

sizes = st.floats(1e3, 1e10)
collectives = st.sampled_from(COLLECTIVES[:-1])
algorithms = st.sampled_from(("auto", "ring", "hierarchical", "halving-doubling", "tree", "nvls"))
placements = st.dictionaries(st.integers(0, 11), st.integers(1, 8), min_size=1, max_size=12)
rates = st.floats(1.0, 500.0)


@st.composite
def presets(draw: st.DrawFn) -> Links:
    return Links(
        fabric=draw(st.sampled_from(("nvswitch", "nvlink-mesh", "pcie"))),
        fabric_gbps=draw(rates),
        fabric_efficiency=draw(st.floats(0.3, 1.0)),
        nvls_efficiency=draw(st.sampled_from((0.0, 0.6))),
        nic_count=draw(st.integers(1, 8)),
        nic_gbps=draw(rates),
        tree_efficiency=draw(st.floats(0.3, 1.0)),
        root_s=draw(st.floats(0.0, 1e-7)),
        oversubscription=draw(st.floats(1.0, 8.0)),
        background=draw(st.floats(0.0, 0.9)),
        ideal=draw(st.booleans()),
    )


def time_s(links: Links, collective: str, nbytes: float, placement: Mapping[int, int], algorithm: str) -> float:
    network = connect(grid(2, 2, 3, 8), links)
    return collective_cost(network, placed(network, placement), collective, nbytes, algorithm).alone_s()


@given(presets(), collectives, sizes, placements, algorithms, st.floats(1.0, 10.0), st.sampled_from((0, 1, 2, 3)))
@settings(max_examples=many(150), deadline=None)
def test_more_bandwidth_is_never_slower(
    links: Links,
    collective: str,
    nbytes: float,
    placement: dict[int, int],
    algorithm: str,
    more: float,
    which: int,
) -> None:
    faster = [
        links._replace(fabric_gbps=links.fabric_gbps * more),
        links._replace(nic_gbps=links.nic_gbps * more),
        links._replace(oversubscription=links.oversubscription / more),
        links._replace(background=links.background / more),
    ][which]
    before = time_s(links, collective, nbytes, placement, algorithm)
    assert time_s(faster, collective, nbytes, placement, algorithm) <= before * (1 + 1e-9)


@given(presets(), collectives, sizes, st.lists(st.integers(1, 8), min_size=2, max_size=3))
@settings(max_examples=many(150), deadline=None)
def test_a_closer_tier_is_never_slower(links: Links, collective: str, nbytes: float, split: list[int]) -> None:
    rack = dict(enumerate(split))
    pod = dict(zip((0, 3, 4), split, strict=False))
    apart = dict(zip((0, 6, 9), split, strict=False))
    inside = time_s(links, collective, nbytes, {0: sum(split)}, "auto") if sum(split) <= 8 else 0.0
    times = [inside, *(time_s(links, collective, nbytes, place, "auto") for place in (rack, pod, apart))]
    # A machine is closer than its rack only where its fabric is no slower than its NICs.
    fair = links.fabric_gbps * links.fabric_efficiency >= links.nic_gbps * links.nic_count
    for near, far in list(pairwise(times))[0 if fair and links.fabric == "nvswitch" else 1 :]:
        assert near <= far * (1 + 1e-9)


@given(presets(), collectives, st.floats(1e3, 1e9), placements, algorithms)
@settings(max_examples=many(100), deadline=None)
def test_more_bytes_take_longer(
    links: Links, collective: str, nbytes: float, placement: dict[int, int], algorithm: str
) -> None:
    small = time_s(links, collective, nbytes, placement, algorithm)
    assert small <= time_s(links, collective, 2 * nbytes, placement, algorithm)


@given(presets(), collectives, sizes, placements)
@settings(max_examples=many(100), deadline=None)
def test_auto_is_the_fastest_of_what_the_library_offers(
    links: Links, collective: str, nbytes: float, placement: dict[int, int]
) -> None:
    best = time_s(links, collective, nbytes, placement, "auto")
    if collective != "all-to-all" and not links.ideal:
        for name in links.algorithms.split():
            assert best <= time_s(links, collective, nbytes, placement, name) * (1 + 1e-9)


def test_congestion_zero_changes_nothing_and_half_doubles_the_transfer() -> None:
    topology = grid(2, 2, 8)
    links = Links(nic_gbps=25)
    times = []
    for congestion in (None, 0.0, 0.5, {"rack": 0.9}):
        network = connect(topology, links, congestion)
        cost = collective_cost(network, placed(network, {0: 8, 1: 8}), "all-reduce", 1e9, "ring")
        times.append(cost.alone_s() - cost.fixed_s)
    assert times[0] == times[1]
    assert times[2] == pytest.approx(2 * times[0])
    assert times[3] == times[0]  # the gang does not leave its rack


def test_nccl_runs_rings_on_two_machines_where_trees_would_be_faster() -> None:
    preset = find_preset("a100-nvswitch-8x200g")
    algorithms: dict[str, list[str]] = {}
    for chooses in ("fastest", "nccl"):
        network = connect(grid(1, 4, 8), override(preset, {"chooses": chooses}))
        for machines in (2, 4):
            gang = placed(network, dict.fromkeys(range(machines), 8))
            costs = [collective_cost(network, gang, "all-reduce", nbytes) for nbytes in (1e6, 1e9)]
            algorithms.setdefault(chooses, []).extend(cost.algorithm for cost in costs)
    assert algorithms == {"fastest": ["tree", "tree", "tree", "ring"], "nccl": ["tree", "ring", "tree", "ring"]}
    with pytest.raises(InputError, match="chooses: 'best': must be one of fastest, nccl"):
        override(preset, {"chooses": "best"})
