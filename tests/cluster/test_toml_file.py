"""Topology files: what they say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.formats.hostlist import expand
from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.spec import read_topology
from dally.errors import InputError, InputWarning

GOOD = """
[[tiers]]
name = "machine"
capacity_gbps = 50
latency_s = 2.5e-6
[[tiers]]
name = "rack"
capacity_gbps = 200.0
[[tiers]]
name = "network"

[[machines]]
path = "rack[0-1]"
count = 2
gpus = 8
[[machines]]
path = "old"
names = "o[08-10]"
gpus = 4

[[domains]]
path = "old"
capacity_gbps = 25
[[domains]]
path = "old/o09"
latency_s = 1e-5
"""


def test_reads_uneven_racks_and_their_links(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(GOOD)
    topology = read_topology(str(file))
    assert topology.names[0] == ["rack0-m0", "rack0-m1", "rack1-m0", "rack1-m1", "o08", "o09", "o10"]
    assert list(topology.gpus[0]) == [8, 8, 8, 8, 4, 4, 4]
    assert [link.capacity_gbps for link in topology.links[1]] == [200.0, 200.0, 25.0]
    assert topology.links[0][5].latency_s == 1e-5
    assert topology.links[0][5].capacity_gbps == 50.0
    assert topology.links[0][4].latency_s == 2.5e-6


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('name = "rack"', "name = 7", "lab.toml:7: tiers[1].name: 7: must be text"),
        ("gpus = 4", "gpus = 0", "lab.toml:19: machines[1].gpus: 0: must be a whole number from 1 to 1024"),
        ("gpus = 4", "", "lab.toml:16: machines[1].gpus: missing: must be a whole number from 1 to 1024"),
        ("gpus = 4", 'gpus = "4"', "lab.toml:19: machines[1].gpus: '4': must be a whole number from 1 to 1024"),
        ("gpus = 4", "gpu = 4", "lab.toml:19: machines[1].gpu: 4: unknown; known: path, count, names, gpus"),
        ("count = 2", 'names = "x[1-2]"', "lab.toml:14: machines[0].names: 'x[1-2]': a path that is a pattern"),
        (
            'path = "old"\nnames',
            'path = "a/b"\nnames',
            "lab.toml:17: machines[1].path: 'a/b': must name 1 domain(s)",
        ),
        ("o[08-10]", "o[10-08]", "lab.toml:18: machines[1].names: 'o[10-08]': '10-08' is not a rising range"),
        ("o[08-10]", "rack0-m0", "lab.toml:18: machines[1].names: 'rack0-m0': two machines have this name"),
        (
            "capacity_gbps = 50",
            "capacity_gbps = -1",
            "lab.toml:4: tiers[0].capacity_gbps: -1: must be a number",
        ),
        ("latency_s = 2.5e-6", "latency_s = nan", "lab.toml:5: tiers[0].latency_s: nan: must be a number"),
        ('"old/o09"', '"old/none"', "lab.toml:25: domains[1].path: 'old/none': no such domain"),
        ("[[domains]]", "[[domain]]", "lab.toml:21: domain: unknown; known: tiers, machines, domains"),
        (
            'name = "rack"',
            'name = "machine"',
            "tiers: ['machine', 'machine', 'network']: at least two different",
        ),
        (
            "count = 2",
            "count = 2 2",
            "lab.toml:14: Expected newline or end of document after a statement",
        ),
    ],
)
def test_says_what_is_wrong_and_where(tmp_path: Path, before: str, after: str, message: str) -> None:
    file = tmp_path / "lab.toml"
    assert before in GOOD
    file.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(InputError) as caught:
        read_topology(str(file))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["0x4x8", "4x0", "99999x99999x8", "nowhere", "4x", "x8", "missing.toml"])
def test_bad_specs(spec: str) -> None:
    with pytest.raises(InputError):
        read_topology(spec)


def test_specs() -> None:
    assert read_topology("4x16x8").total_gpus() == 512
    assert read_topology("3x8").tiers == ["machine", "network"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,3]", ["n08", "n09", "n10", "n3"]),
        ("r[0-1]n[1,2]x", ["r0n1x", "r0n2x", "r1n1x", "r1n2x"]),
    ],
)
def test_hostlists(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["", "n[", "n]", "n[a]", "n[3-1]", "n[]", "n[1-]", "n[0-99999999]", "n[[1]]"])
def test_bad_hostlists(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        expand(text)


BITS = '[[tiers]]\nname = "machine"\n{}\n[[tiers]]\nname = "network"\n[[machines]]\ncount = 2\ngpus = 8\n'


@pytest.mark.parametrize(
    ("line", "gb_s"),
    [("capacity_gb_s = 25", 25.0), ("capacity_gbit_s = 200", 25.0), ("capacity_gbps = 25", 25.0)],
)
def test_a_capacity_in_bytes_or_bits(line: str, gb_s: float) -> None:
    topology = parse_toml(Path("t.toml"), BITS.format(line))
    assert {link.capacity_gbps for link in topology.links[0]} == {gb_s}


def test_a_capacity_that_looks_like_bits_is_doubted() -> None:
    with pytest.warns(
        InputWarning, match=r"t.toml:3: capacity_gbps: 200 is read as gigabytes per second, 1600 Gb/s"
    ):
        parse_toml(Path("t.toml"), BITS.format("capacity_gbps = 200"))
    with pytest.warns(InputWarning, match=r"t.toml:3: capacity_gbit_s: 0.5 Gb/s is 0.0625 GB/s"):
        parse_toml(Path("t.toml"), BITS.format("capacity_gbit_s = 0.5"))


def test_a_capacity_is_stated_once() -> None:
    with pytest.raises(InputError, match="capacity_gbit_s: 8: capacity_gb_s says it already"):
        parse_toml(Path("t.toml"), BITS.format("capacity_gb_s = 1\ncapacity_gbit_s = 8"))
