"""The least iteration over all placements: never above any of them, and by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.links import Links, Network, connect
from dally.cluster.presets import PRESETS
from dally.cluster.topology import Machine, Topology, default_tiers, grid
from dally.model import Job, Profile
from dally.perf.gang import closest_placement, gang_on
from dally.perf.iteration import demand_of
from dally.perf.least import Least
from dally.perf.network_model import NetworkModel
from tests.examples import many

PLAIN = Links(nic_count=1, nic_gbps=1.0, nic_latency_s=0.0, fabric_latency_s=0.0, uplink_latency_s=0.0)


def placements(rooms: list[int], gpus: int) -> Iterator[list[int]]:
    """Every way to spread so many GPUs over machines with that much room."""
    if not rooms:
        if gpus == 0:
            yield []
        return
    for part in range(min(rooms[0], gpus) + 1):
        for rest in placements(rooms[1:], gpus - part):
            yield [part, *rest]


def iteration_s(network: Network, parts: list[int], profile: Profile) -> float:
    used = [machine for machine, part in enumerate(parts) if part > 0]
    gang = gang_on(network, vec[i64](used), vec[i64]([parts[machine] for machine in used]))
    demand = demand_of(network, gang, profile)
    return demand.iteration_s(demand.alone_s)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    above = draw(st.integers(0, 2))
    names = st.tuples(*(st.sampled_from(["a", "b", "c"]) for _ in range(above)))
    machines = draw(st.lists(st.tuples(names, st.integers(1, 4)), min_size=2, max_size=5))
    topology = Topology(
        default_tiers(above + 2), [Machine(path, f"m{place}", gpus) for place, (path, gpus) in enumerate(machines)]
    )
    links = PRESETS[draw(st.sampled_from(sorted(PRESETS)))]._replace(
        ideal=draw(st.booleans()),
        algorithms=draw(st.sampled_from(["ring", "hierarchical", "tree nvls", "ring tree"])),
    )
    shares = {tier: draw(st.sampled_from([0.0, 0.3, 0.9])) for tier in topology.tiers[:-1]}
    return connect(topology, links, shares)


PROFILES = st.builds(
    Profile,
    compute_s=st.sampled_from([0.0, 0.01, 0.3]),
    nbytes=st.sampled_from([0.0, 1e6, 1e9]),
    overlap=st.sampled_from([0.0, 0.5, 1.0]),
    last_bucket_bytes=st.sampled_from([0.0, 1e5, 1e9]),
    all_to_all_bytes=st.sampled_from([0.0, 1e7, 1e9]),
    all_to_all_gpus=st.integers(0, 6),
)


@settings(max_examples=many(150))
@given(networks(), PROFILES, st.data())
def test_no_placement_is_faster(network: Network, profile: Profile, data: st.DataObject) -> None:
    rooms = [int(gpus) for gpus in network.topology.gpus[0]]
    gpus = data.draw(st.integers(1, min(10, sum(rooms))))
    least_s = Least(network).iteration_s(profile, gpus)
    fastest_s = min(iteration_s(network, parts, profile) for parts in placements(rooms, gpus))
    assert least_s <= fastest_s * (1 + 1e-9)


def test_by_hand() -> None:
    # 4 GPUs on machines of 2 need two machines: 2·(1/2)·1 GB in and out of each, at 1 GB/s and half of that
    # taken by others: 2 s beside 1 s of compute, of which nothing overlaps.
    network = connect(grid(1, 4, 2), PLAIN, 0.5)
    profile = Profile(compute_s=1.0, nbytes=1e9, overlap=0.0)
    assert Least(network).iteration_s(profile, 4) == pytest.approx(3.0)
    assert Least(network).iteration_s(profile, 2) == pytest.approx(1.0)  # in one machine


def test_an_exchange_is_least_one_gpu_a_machine() -> None:
    # 4 GPUs exchange 1 GB each. Two in a machine send 2·2/4 GB through its NIC, one alone 1·3/4 GB.
    network = connect(grid(1, 4, 2), PLAIN, 0.5)
    profile = Profile(all_to_all_bytes=1e9)
    assert Least(network).iteration_s(profile, 4) == pytest.approx(1.5)
    assert iteration_s(network, [1, 1, 1, 1], profile) == pytest.approx(1.5)
    assert iteration_s(network, [2, 2], profile) == pytest.approx(2.0)


def test_background_load_on_one_link_slows_nobody_for_certain() -> None:
    network = connect(grid(1, 4, 2), PLAIN)
    network.rate[0] *= 0.1
    network.background[0] = 0.9
    assert slowdown(network) == 1.0


def test_background_load_on_all_links_does() -> None:
    # On the quiet network 1 s of compute and 1 s of exchange; loaded by half, 1 + 2.
    network = connect(grid(1, 4, 2), PLAIN, 0.5)
    assert slowdown(network) == pytest.approx(1.5, rel=1e-3)
    assert slowdown(connect(grid(1, 4, 2), PLAIN)) == 1.0


def slowdown(network: Network) -> float:
    quiet = connect(grid(1, 4, 2), PLAIN)
    profile = Profile(compute_s=1.0, nbytes=1e9, overlap=0.0)
    speed = NetworkModel(network, quiet, lambda model, gpus: profile)
    job = Job(0, "a", 0.0, 4, 100.0, "m")
    assert speed.comm_floor_s(job) == pytest.approx(50.0 + 100.0 * (speed.least_slowdown(job) - 1.0), rel=1e-2)
    closest = demand_of(network, closest_placement(network, 4), profile)
    assert speed.least_slowdown(job) <= closest.iteration_s(closest.alone_s) / speed.kind(job).closest_s + 1e-9
    return speed.least_slowdown(job)
