"""Fabrics beyond one machine and one cable: rails, racks that NVLink joins, flows hashed over cables."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.formats.known import import_file
from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.writers import to_toml
from dally.cluster.hashed_paths import MOST_COUNTED, attained, busiest
from dally.cluster.links import HASH, ROUTINGS, WORST, Network, connect, override
from dally.cluster.outline import draw
from dally.cluster.presets import PRESETS, find_preset
from dally.cluster.topology import grid
from dally.errors import InputError
from dally.perf.collectives import collective_cost
from dally.perf.gang import Gang, gang_on
from dally.perf.llm.accelerators import gpu_types
from dally.perf.llm.layout import Layout
from dally.perf.llm.placed import Groups
from dally.perf.llm.step import LayoutModel
from dally.perf.llm.transformer import ExpertMix, Transformer

GB = 1e9
RACK_FILE = """\
[[tiers]]
name = "tray"
capacity_gb_s = 200
fabric = "nvswitch"
fabric_gbps = 900

[[tiers]]
name = "rack"
fabric = "nvswitch"
fabric_gbps = 900

[[tiers]]
name = "network"

[[machines]]
path = "r[0-1]"
count = 18
gpus = 4
"""


def gang_of(network: Network, parts: dict[int, int]) -> Gang:
    return gang_on(network, vec[i64](list(parts)), vec[i64](list(parts.values())))


def all_reduce_s(network: Network, parts: dict[int, int], nbytes: float = GB) -> float:
    return collective_cost(network, gang_of(network, parts), "all-reduce", nbytes).alone_s()


@pytest.mark.parametrize(("flows", "cables"), [(1, 5), (2, 2), (3, 4), (5, 3), (4, 1), (6, 2)])
def test_the_busiest_cable_is_what_counting_every_case_gives(flows: int, cables: int) -> None:
    cases = list(product(range(cables), repeat=flows))
    expected = sum(max(case.count(cable) for cable in range(cables)) for case in cases) / len(cases)
    assert busiest(flows, cables, ROUTINGS.index(HASH)) == pytest.approx(expected)


def test_hashing_loses_and_at_worst_all_flows_meet() -> None:
    hashed = ROUTINGS.index(HASH)
    assert busiest(32, 32, ROUTINGS.index(WORST)) == 32.0
    assert 0.25 < attained(32, 32, hashed) < 0.35
    assert attained(1024, 32, hashed) > attained(64, 32, hashed)  # more flows, better spread
    counted, estimated = busiest(MOST_COUNTED, 32, hashed), busiest(MOST_COUNTED + 1, 32, hashed)
    assert estimated == pytest.approx(counted, rel=0.1)


def test_hashed_uplinks_slow_a_gang_that_crosses_them_and_no_other() -> None:
    spray = override(find_preset("dgx-h100-superpod"), {"oversubscription": "32", "uplinks": "8"})
    topology = grid(2, 32, 8)
    inside, across = {0: 8, 1: 8}, {0: 8, 32: 8}
    seconds = {}
    for routing in ROUTINGS:
        network = connect(topology, spray._replace(routing=routing))
        assert all_reduce_s(network, inside) == all_reduce_s(connect(topology, spray), inside)
        seconds[routing] = all_reduce_s(network, across)
    assert seconds["spray"] < seconds["hash"] < seconds["worst"]


def test_a_gang_on_half_of_the_rails_has_half_of_the_uplink() -> None:
    narrow = override(find_preset("dgx-h100-superpod"), {"oversubscription": "64"})  # uplinks that are the limit
    topology = grid(2, 32, 8)
    alike = connect(topology, narrow._replace(rails=0))
    rails = connect(topology, narrow)
    for whole in ({0: 8, 32: 8}, {0: 8, 1: 8, 32: 8, 33: 8}):
        assert all_reduce_s(rails, whole) == all_reduce_s(alike, whole)
    half = {0: 4, 32: 4}
    big = 1e11
    assert all_reduce_s(rails, half, big) == pytest.approx(2 * all_reduce_s(alike, half, big), rel=0.05)


def test_machines_of_a_rack_meet_at_the_rate_of_their_fabric() -> None:
    network = connect(grid(2, 18, 4), find_preset("gb200-nvl72"))
    inside = all_reduce_s(network, dict.fromkeys(range(18), 4))
    assert inside < 2 * GB / (900e9 * 0.801) * 1.2
    two_trays = all_reduce_s(network, {0: 4, 1: 4})
    two_racks = all_reduce_s(network, {0: 4, 18: 4})  # out of the rack each GPU has its NIC alone
    assert two_racks > 2 * two_trays
    assert two_racks == pytest.approx(GB / (4 * 50e9 * 0.975), rel=0.2)  # a tree


def test_experts_of_one_rack_exchange_over_its_fabric() -> None:
    network = connect(grid(2, 18, 4), find_preset("gb200-nvl72"))
    shape = Transformer(4, 2048, 16, 16, 8192, 32000, experts=ExpertMix(64, 8, 1024))
    model = LayoutModel(shape, gpu_types()["GB200"].at("bf16"), "bf16")
    groups = Groups(model, Layout(gpus=64, seq=4096, global_batch=64, ep=64))
    inside = groups.placed(network, gang_of(network, dict.fromkeys(range(16), 4)))
    across = groups.placed(network, gang_of(network, dict.fromkeys((*range(8), *range(18, 26)), 4)))
    assert inside.ranks.rates.expert_nic == inside.ranks.rates.expert_fabric
    assert across.ranks.rates.expert_nic <= 50e9
    assert across.ranks.rates.expert_domains == 2.0  # racks, not trays
    assert across.parts.expert_s > 1.5 * inside.parts.expert_s


def test_a_file_states_what_a_preset_does(tmp_path: Path) -> None:
    path = tmp_path / "racks.toml"
    stated = connect(parse_toml(path, RACK_FILE), find_preset("gb200-nvl72")._replace(domain_fabric_gbps=0.0))
    preset = connect(grid(2, 18, 4), find_preset("gb200-nvl72"))
    for parts in ({0: 4, 5: 4}, {0: 4, 20: 4}, {0: 1, 1: 1}):
        assert all_reduce_s(stated, parts) == all_reduce_s(preset, parts)


def test_fabrics_survive_being_written(tmp_path: Path) -> None:
    text = RACK_FILE.replace('name = "rack"', 'name = "rack"\nrails = 4\nuplinks = 72\nrouting = "hash"')
    topology = parse_toml(tmp_path / "a.toml", text)
    (tmp_path / "b.toml").write_text(to_toml(topology), encoding="utf-8")
    again = import_file(tmp_path / "b.toml").topology
    assert [[link.facts() for link in tier] for tier in again.links] == [
        [link.facts() for link in tier] for tier in topology.links
    ]
    assert "4 rails, 72 uplinks, routing hash" in draw(again)
    assert "inside nvswitch, 900 GB/s per GPU" in draw(again)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('routing = "luck"', r"tiers\[1\].routing: 'luck': must be one of spray, hash, worst"),
        ("rails = 1.5", r"tiers\[1\].rails: 1.5"),
        ("uplinks = -1", r"tiers\[1\].uplinks: -1"),
    ],
)
def test_bad_fabrics_name_line_field_and_value(tmp_path: Path, line: str, words: str) -> None:
    text = RACK_FILE.replace('name = "rack"', f'name = "rack"\n{line}')
    with pytest.raises(InputError, match=words):
        parse_toml(tmp_path / "bad.toml", text)


def test_pods_above_units_have_an_oversubscription_of_their_own() -> None:
    network = connect(grid(4, 2, 32, 8), find_preset("h100-rails-4to1"))
    machine, unit, pod = (float(network.capacity_gbps[int(first)]) for first in network.first_link)
    assert (unit / machine, pod / unit) == (32.0, 0.5)


def test_todays_fabrics_choose_as_nccl_and_the_benchmarks_networks_the_fastest() -> None:
    for name in ("h100-nvswitch-8x400g", "h100-rails-4to1", "gb200-nvl72", "ethernet-100g"):
        assert connect(grid(2, 4, 8), PRESETS[name]).chooses == "nccl"
    for name in ("fast", "normal", "slow", "congested", "as-published"):
        assert connect(grid(2, 4, 8), PRESETS[name]).chooses == "fastest"


def test_older_presets_know_nothing_of_it() -> None:
    for name in ("normal", "slow", "h100-nvswitch-8x400g"):
        network = connect(grid(2, 4, 8), PRESETS[name])
        assert not any((*network.gpu_rate, *network.paths, *network.joined))


def test_bad_routing_in_an_option_is_refused() -> None:
    with pytest.raises(InputError, match="routing: 'luck': must be one of spray, hash, worst"):
        override(PRESETS["normal"], {"routing": "luck"})
