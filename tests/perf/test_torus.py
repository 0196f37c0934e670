"""Slices of a torus: their shapes, what their links carry, and gangs on one slice or on several."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from math import prod
from pathlib import Path

import pytest
from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.writers import to_toml
from dally.cluster.links import Network, connect, override
from dally.cluster.outline import draw
from dally.cluster.presets import find_preset
from dally.cluster.topology import Topology, grid
from dally.cluster.torus import Torus
from dally.errors import InputError
from dally.perf.collectives import collective_cost
from dally.perf.gang import Gang, closest_placement, gang_on
from dally.perf.llm.accelerators import gpu_types
from dally.perf.llm.layout import Layout
from dally.perf.llm.placed import Groups
from dally.perf.llm.step import LayoutModel
from dally.perf.llm.transformer import Transformer
from dally.perf.slices import TorusSlice, slices_of
from dally.runs.execute import execute
from dally.runs.scenario import Scenario

GB = 1e9
POD = "1x64x2x2x2x2x4"  # pods, blocks, halves down to two hosts, hosts of four chips


def pods(spec: str = POD, preset: str = "tpu-v4") -> Network:
    return connect(grid(*(int(count) for count in spec.split("x"))), find_preset(preset))


def gang_of(network: Network, machines: range | list[int], gpus: int = 4) -> Gang:
    return gang_on(network, vec[i64](list(machines)), vec[i64]([gpus] * len(machines)))


def shapes(network: Network, gang: Gang) -> list[tuple[list[int], bool]]:
    assert network.torus is not None
    return [(piece.shape, piece.wraps) for piece in slices_of(network, network.torus, gang).all]


def seconds(network: Network, gang: Gang, collective: str = "all-reduce", nbytes: float = GB) -> float:
    return collective_cost(network, gang, collective, nbytes).alone_s()


def test_a_pod_has_the_bandwidths_that_its_maker_publishes() -> None:
    network = pods()
    whole = gang_of(network, range(1024))
    assert shapes(network, whole) == [([16, 16, 16], True)]
    big = 1e12  # so that latency does not count
    # TPU v4: 1.1 PB/s of all-reduce per pod, what all chips send at a time, and 24 TB/s through its middle.
    sent = 2 * 4095 / 4096 * big * 4096
    assert sent / seconds(network, whole, nbytes=big) == pytest.approx(1.1e15, rel=0.02)
    crossing = big * 4096 / 4
    assert 2 * crossing / (2 * seconds(network, whole, "all-to-all", big)) == pytest.approx(24e12, rel=0.05)


@pytest.mark.parametrize(
    ("shape", "wraps"),
    [([4, 4, 4], True), ([4, 4, 8], True), ([2, 2, 4], False), ([2, 2, 2], False), ([2, 2, 1], False)],
)
def test_an_exchange_takes_what_the_busiest_link_of_shortest_paths_carries(shape: list[int], wraps: bool) -> None:
    loads: dict[tuple[tuple[int, ...], int, int], float] = defaultdict(float)
    for start, end in product(product(*map(range, shape)), repeat=2):
        here = list(start)
        for axis, side in enumerate(shape):  # one dimension after the other, both ways round where they are as long
            ways = [1 if end[axis] >= here[axis] else -1]
            ahead = (end[axis] - here[axis]) % side
            if wraps:
                ways = [1] if 2 * ahead < side else [-1] if 2 * ahead > side else [1, -1]
            for way in ways:
                place = list(here)
                while place[axis] != end[axis]:
                    loads[tuple(place), axis, way] += 1 / len(ways)
                    place[axis] = (place[axis] + way) % side
            here[axis] = end[axis]
    torus = Torus([shape], GB, 0.0, False, 1)
    nbytes = 1e9
    busiest_s = max(loads.values()) * nbytes / prod(shape) / GB
    assert TorusSlice(shape, wraps, prod(shape)).exchange_s(torus, nbytes) == pytest.approx(busiest_s)


@pytest.mark.parametrize(
    ("blocks", "shape"),
    [
        (1, [4, 4, 4]),
        (2, [4, 4, 8]),
        (3, [4, 4, 12]),
        (4, [4, 8, 8]),
        (6, [4, 8, 12]),
        (8, [8, 8, 8]),
        (64, [16, 16, 16]),
    ],
)
def test_joined_blocks_are_as_even_as_can_be(blocks: int, shape: list[int]) -> None:
    torus = pods().torus
    assert torus is not None
    assert torus.joined(blocks) == shape


def test_slices_are_whole_domains_or_whole_blocks_of_a_pod() -> None:
    network = pods("2x4x2x2x2x2x4")
    assert shapes(network, gang_of(network, [3])) == [([2, 2, 1], False)]
    assert shapes(network, gang_of(network, range(4))) == [([2, 2, 4], False)]
    assert shapes(network, gang_of(network, range(16))) == [([4, 4, 4], True)]
    # Blocks 0 and 3 of a pod are one torus wherever they are; a block of another pod is not in it.
    assert shapes(network, gang_of(network, [*range(16), *range(48, 64)])) == [([4, 4, 8], True)]
    apart = gang_of(network, [*range(16), *range(48, 64), *range(64, 80)])
    assert shapes(network, apart) == [([4, 4, 8], True), ([4, 4, 4], True)]
    # Four hosts that are no slice: two pairs, or four single ones; and 24 chips are 16 and 8.
    assert shapes(network, gang_of(network, [0, 1, 4, 5])) == [([2, 2, 2], False)] * 2
    assert shapes(network, gang_of(network, [1, 2, 4, 7])) == [([2, 2, 1], False)] * 4
    assert shapes(network, closest_placement(network, 24)) == [([2, 2, 4], False), ([2, 2, 2], False)]
    assert shapes(network, gang_of(network, [0, 1], gpus=2)) == [([2], False)] * 2


def test_a_gang_on_one_slice_uses_no_link_and_one_on_two_waits_for_nics() -> None:
    network = pods()
    one, two = gang_of(network, range(4)), gang_of(network, [0, 1, 4, 5])
    cost = collective_cost(network, one, "all-reduce", GB)
    assert not len(cost.links)
    # 2x2x4 without wrap-around: three ways of 45 GB/s, 15/16 of the bytes twice.
    assert cost.private_s == pytest.approx(2 * 15 / 16 * GB / (3 * 45e9))
    apart = collective_cost(network, two, "all-reduce", GB)
    # A slice of two hosts sends all bytes to the other once in an all-reduce of two, each host half.
    assert max(apart.seconds) == pytest.approx(GB / 2 / 25e9)
    assert apart.alone_s() > 1.5 * cost.alone_s()
    assert seconds(network, two, "all-to-all") > 3 * seconds(network, one, "all-to-all")
    block = seconds(network, gang_of(network, range(16)))
    assert block < cost.alone_s()  # it wraps around: twice the ways
    assert seconds(network, gang_of(network, [0], gpus=2), "point-to-point") < seconds(
        network, gang_of(network, [0, 1], gpus=1), "point-to-point"
    )


def test_large_models_rank_along_slices() -> None:
    network = pods()
    shape = Transformer(32, 4096, 32, 8, 14336, 128256)
    model = LayoutModel(shape, gpu_types()["H100"].at("bf16"), "bf16")
    groups = Groups(model, Layout(gpus=32, seq=4096, global_batch=64, tp=8))
    inside = groups.placed(network, gang_of(network, range(8)))
    assert inside.crossed == {}
    assert inside.ranks.rates.tensor == 45e9
    split = groups.placed(network, gang_of(network, [0, 1, 4, 5, 2, 3, 8, 9]))
    assert split.crossed == {"data": "machine"}  # each tensor group stays in a slice of eight
    assert split.parts.total_s > inside.parts.total_s
    demand = groups.demand(network, gang_of(network, [0, 1, 4, 5, 2, 3, 8, 9]))
    assert sorted(set(demand.cost.links)) == list(demand.cost.links)
    assert not len(groups.demand(network, gang_of(network, range(8))).cost.links)


TOML = """\
[[tiers]]
name = "host"
capacity_gb_s = 25
torus = "2x2x1"

[[tiers]]
name = "half"
torus = "2x2x2"

[[tiers]]
name = "block"
torus = "2x2x4"
torus_gbps = 45

[[tiers]]
name = "pod"
torus = "joined"

[[machines]]
path = "b[0-3]/h[0-1]"
count = 2
gpus = 4
"""


def read(text: str) -> Topology:
    return parse_toml(Path("pod.toml"), text)


def test_a_topology_file_states_a_torus() -> None:
    network = connect(read(TOML), find_preset("h100-nvswitch-8x400g"))
    assert shapes(network, gang_of(network, range(4))) == [([2, 2, 4], True)]
    assert shapes(network, gang_of(network, range(8))) == [([2, 2, 8], True)]
    again = read(to_toml(read(TOML)))
    assert [[link.facts() for link in tier] for tier in again.links] == [
        [link.facts() for link in tier] for tier in read(TOML).links
    ]
    assert "torus 2x2x2" in draw(again)
    assert connect(read(TOML.replace("torus_gbps = 45\n", "")), find_preset("normal")).torus is None  # no rate
    nodes = read(TOML.replace('torus = "2x2x1"\n', "").replace('"2x2x2"', '"2x1x1"').replace('"2x2x4"', '"2x2x1"'))
    of_nodes = connect(nodes, find_preset("h100-nvswitch-8x400g"))
    assert of_nodes.torus is not None
    assert of_nodes.torus.unit == 4  # machines are the nodes
    assert shapes(of_nodes, gang_of(of_nodes, range(4))) == [([2, 2, 1], True)]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"2x2x2"', '"2x2x2x2"', r"torus: '2x2x2x2': must be sides such as 4x4x4, at most three, or joined"),
        ('"2x2x2"', "7", "torus"),
        ("torus_gbps = 45", "torus_gbps = -1", "torus_gbps"),
    ],
)
def test_bad_shapes_in_a_file_are_refused(old: str, new: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read(TOML.replace(old, new))


def test_bad_shapes_in_an_option_are_refused() -> None:
    for text, problem in (("4x", "must be sides such as"), ("joined", "states no shape")):
        with pytest.raises(InputError, match=problem):
            connect(grid(1, 2, 4), override(find_preset("tpu-v4"), {"torus": text}))
    with pytest.raises(InputError, match="machines must have the same number of GPUs, a multiple of 4"):
        connect(read(TOML.replace("gpus = 4", "gpus = 6")), find_preset("normal"))


def test_jobs_on_slices_of_their_own_are_as_fast_as_alone(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"{job},0,{gpus},3600,bert-large" for job, gpus in enumerate((16, 16, 32, 64, 128))]
    trace.write_text("\n".join(["job_id,submit_s,gpus,duration_s,model", *rows]) + "\n")
    for policy in ("fifo-backfill", "dally"):
        summary = execute(Scenario(str(trace), "1x4x2x2x2x2x4", policy, network="tpu-v4")).summary
        assert summary["jct_mean_s"] == pytest.approx(3600.0)


def test_planes_spread_flows_over_fewer_choices() -> None:
    topology = grid(2, 32, 8)
    narrow = override(
        find_preset("dgx-h100-superpod"), {"oversubscription": "32", "uplinks": "16", "routing": "hash"}
    )
    gang = {0: 8, 1: 8, 32: 8, 33: 8}
    times = []
    for planes in ("0", "1", "2", "16"):
        network = connect(topology, override(narrow, {"planes": planes}))
        parts = gang_on(network, vec[i64](list(gang)), vec[i64](list(gang.values())))
        times.append(seconds(network, parts))
    one, same, two, sixteen = times
    assert one == same
    spray = connect(topology, narrow._replace(routing="spray"))
    assert (
        one > two > sixteen == seconds(spray, gang_on(spray, vec[i64](list(gang)), vec[i64](list(gang.values()))))
    )
