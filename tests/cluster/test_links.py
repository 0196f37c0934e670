"""What presets and files make of a topology: capacities, overrides, background, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.links import Links, connect, has_links, override
from dally.cluster.outline import draw
from dally.cluster.presets import PRESETS, find_preset
from dally.cluster.spec import read_topology
from dally.cluster.topology import grid
from dally.errors import InputError

FILE = """
[[tiers]]
name = "machine"
capacity_gbps = 50
fabric = "pcie"
fabric_gbps = 24
fabric_latency_s = 1e-6

[[tiers]]
name = "rack"
oversubscription = 2
latency_s = 4e-6
background = 0.25

[[tiers]]
name = "network"

[[machines]]
path = "rack[0-1]"
count = 2
gpus = 8

[[domains]]
path = "rack1/rack1-m1"
capacity_gbps = 100
efficiency = 0.5
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "nic_gbps", "uplink_gbps", "background"),
    [("fast", 200, 1600, 0), ("normal", 50, 200, 0), ("slow", 12.5, 25, 0), ("congested", 12.5, 25, 0.5)],
)
def test_the_benchmarks_four(name: str, nic_gbps: float, uplink_gbps: float, background: float) -> None:
    network = connect(grid(2, 8, 8), find_preset(name))
    assert list(network.capacity_gbps) == [nic_gbps] * 16 + [uplink_gbps] * 2
    assert list(network.background) == [background] * 18
    assert list(network.first_link) == [0, 16]
    assert PRESETS[name].fabric_gbps == 300
    assert list(network.rate) == pytest.approx([gbps * 1e9 * (1 - background) for gbps in network.capacity_gbps])


def test_every_preset_connects_any_depth() -> None:
    for links in PRESETS.values():
        for counts in ((4, 8), (2, 2, 8), (2, 2, 2, 4), (2, 1, 2, 2, 3)):
            network = connect(grid(*counts), links)
            assert min(network.rate) > 0
            assert len(network.first_link) == len(counts) - 1


def test_a_file_counts_before_the_preset(tmp_path: Path) -> None:
    topology = read_topology(str(written(tmp_path, FILE)))
    assert has_links(topology)
    assert not has_links(grid(2, 2, 8))
    network = connect(topology, Links(nic_gbps=1.0, fabric_gbps=999.0, oversubscription=9.0, background=0.1))
    assert list(network.capacity_gbps) == [50, 50, 50, 100, 50, 75]
    assert list(network.background) == [0.1] * 4 + [0.25] * 2
    assert list(network.rate)[3] == pytest.approx(100e9 * 0.5 * 0.9)
    assert list(network.latency_s)[4] == 4e-6
    assert list(network.fabric_rate) == [24e9] * 4
    assert list(network.fabric_latency_s) == [1e-6] * 4  # a bus is one hop
    assert network.link_name(3) == "machine rack1-m1"
    assert network.link_name(5) == "rack rack1"


def test_congestion_overrides_by_tier(tmp_path: Path) -> None:
    topology = read_topology(str(written(tmp_path, FILE)))
    assert list(connect(topology, Links(), 0.5).background) == [0.5] * 6
    assert list(connect(topology, Links(), {"rack": 0.0}).background) == [0.0] * 6
    assert list(connect(topology, Links(), {"machine": 0.2}).background) == [0.2] * 4 + [0.25] * 2


def test_the_drawing_shows_what_a_file_states(tmp_path: Path) -> None:
    text = draw(read_topology(str(written(tmp_path, FILE))))
    assert "[inside pcie, 24 GB/s per GPU, 1 µs]  [link 50 GB/s]" in text
    assert "[link 2:1, 4 µs, background 0.25]" in text
    assert "[link 100 GB/s, efficiency 0.5]" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("background = 0.25", "background = 1.0", r"lab.toml:13: tiers\[1\].background: 1.0"),
        ('fabric = "pcie"', 'fabric = "string"', r"lab.toml:5: tiers\[0\].fabric: 'string'"),
        ("efficiency = 0.5", "efficiency = 0", r"domains\[0\].efficiency: 0"),
        ("latency_s = 4e-6", "fabric_gbps = 3", r"tiers\[1\].fabric_gbps"),
        ("oversubscription = 2", "oversubscription = -2", r"tiers\[1\].oversubscription: -2"),
    ],
)
def test_bad_files_name_line_field_and_value(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_topology(str(written(tmp_path, FILE.replace(old, new))))


def test_overrides() -> None:
    changed = override(find_preset("normal"), {"nic_gbps": "100", "nic_count": "2", "ideal": "true"})
    assert (changed.nic_gbps, changed.nic_count, changed.ideal) == (100.0, 2, True)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nic_gbp": "1"}, "nic_gbp: unknown"),
        ({"nic_gbps": "many"}, "nic_gbps: 'many'"),
        ({"nic_gbps": "-1"}, "nic_gbps: -1"),
        ({"nic_gbps": "nan"}, "nic_gbps: nan"),
        ({"nic_efficiency": "1.5"}, "nic_efficiency: 1.5"),
        ({"background": "1"}, "background: 1.0"),
        ({"fabric": "string"}, "fabric: 'string'"),
        ({"algorithms": "ring magic"}, "algorithms: 'ring magic'"),
        ({"ideal": "maybe"}, "ideal: 'maybe'"),
    ],
)
def test_bad_overrides_name_field_and_value(values: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        override(find_preset("normal"), values)


def test_bad_names_and_shares() -> None:
    with pytest.raises(InputError, match="did you mean 'normal'"):
        find_preset("norml")
    with pytest.raises(InputError, match="'pod': no such tier"):
        connect(grid(2, 2, 8), Links(), {"pod": 0.5})
    with pytest.raises(InputError, match=r"1\.5: must be a share"):
        connect(grid(2, 2, 8), Links(), 1.5)
