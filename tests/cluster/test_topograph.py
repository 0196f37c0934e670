"""Topograph's JSON, and Lingjun's table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally.cluster.formats.from_machines import ImportOptions
from dally.cluster.formats.known import import_file
from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError

EIGHT = ImportOptions(gpus_per_node=8)


def made(folder: Path, value: object) -> Topology:
    (folder / "t.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return import_file(folder / "t.json", EIGHT).topology


def test_instances_list_their_layers_from_the_leaf_up(tmp_path: Path) -> None:
    rows = [
        {"id": f"i{n}", "type": "H100", "network_layers": [f"leaf{n // 2}", f"spine{n // 4}", "core"]}
        for n in range(8)
    ]
    topology = made(tmp_path, {"instances": rows})
    assert topology.names[1:] == [["leaf0", "leaf1", "leaf2", "leaf3"], ["spine0", "spine1"], ["network"]]


@pytest.mark.parametrize(
    ("domains", "tiers"),
    [(["v1", "v1", "v2", "v2"], 3), (["v1", "v2", "v1", "v3"], 4), (["v1", "", "", ""], 4), (["", "", "", ""], 3)],
)
def test_nvlink_domains_are_a_tier_where_they_divide_a_leaf(domains: list[str], tiers: int, tmp_path: Path) -> None:
    rows = [
        {"id": f"i{n}", "network_layers": [f"leaf{n // 2}", "core"], "attributes": {"nvlink": domain}}
        for n, domain in enumerate(domains)
    ]
    assert len(made(tmp_path, {"instances": rows}).tiers) == tiers


def test_switches_of_a_model(tmp_path: Path) -> None:
    value = {
        "switches": {
            "core": {"switches": ["leaf1", "leaf2"], "metadata": {"region": "x"}},
            "leaf1": {"nodes": [{"node_id": "a", "accelerated_network_id": "v1"}, {"node_id": "b"}]},
            "leaf2": {"nodes": ["n[1-2]"]},
        },
        "nodes": {"n1": {"attributes": {"nvlink": "v2"}}},
    }
    topology = made(tmp_path, value)
    assert topology.names[0] == ["a", "b", "n1", "n2"]
    assert topology.names[1] == ["v1", "leaf1", "v2", "leaf2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"instances": [\n', "t.json:2: broken JSON"),
        ('{"instances": [{"id": 3}]}', "instances[0].id: 3: must be text"),
        (
            '{"instances": [{"id": "a", "network_layers": [1]}]}',
            "instances[0].network_layers: [1]: must be a list of",
        ),
        ('{"instances": [{"id": "a"}, {"id": "a"}]}', "a: two machines have this name"),
        ('{"instances": []}', "no nodes in it"),
        ('{"switches": {"a": {"switches": ["b"]}}}', "a: 'b' hangs below it, and there is no such switch"),
        ('{"switches": {"a": {"switches": ["a"]}}}', "in a circle: a above a"),
        ('{"switches": {"a": {"nodes": [1]}}}', "switches.a.nodes: 1: must be a name or an object with node_id"),
        ('{"switches": {"a": {"nodes": ["n[1-"]}}}', "switches.a.nodes: 'n[1-': must be a name"),
        ('{"switches": {"a": {"nodes": ["n"]}, "b": {"nodes": ["n"]}}}', "b: node 'n' appears in 'a' too"),
        ('{"switches": 3}', "switches: 3: must be an object"),
    ],
)
def test_mistakes(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        made(tmp_path, text)
    assert message in str(error.value)


def test_gpus_must_be_said(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"instances": [{"id": "a", "network_layers": ["l"]}]}')
    with pytest.raises(InputError, match="nothing says how many GPUs"):
        read_topology(str(tmp_path / "t.json"))


def test_the_real_lingjun_cluster(shared: Path) -> None:
    topology = read_topology(str(shared / "traces" / "lingjun_topology.csv"))
    assert topology.tiers == ["machine", "asw", "psw", "dsw"]
    assert [len(names) for names in topology.names] == [847, 119, 3, 1]
    assert len(set(topology.names[1])) == 119, "leaf names recur under several PSWs and are told apart"
    assert {"P10-S14", "P12-S2"} <= set(topology.names[1])
    assert topology.total_gpus() == 847 * 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host,ASW\nh,S\n", "l.csv:1: PSW: no such column; the header has host, ASW"),
        ("host,ASW,PSW,DSW\nh,S,P\n", "l.csv:2: 3 fields where the header has 4"),
        ("host,ASW,PSW,DSW\nh,S,P,G\n\nh,S,P,G\n", "l.csv:4: host: 'h' is already in line 2"),
        ("host,ASW,PSW,DSW\nh,,P,G\n", "l.csv:2: ASW: is empty"),
        ("host,ASW,PSW,DSW\n", "l.csv: no machines in it"),
        ('host,ASW,PSW,DSW\nh,"' + "x" * 200_000 + "\n", "l.csv:2: field larger than field limit"),
    ],
)
def test_mistakes_in_a_lingjun_table(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(InputError) as error:
        import_file(tmp_path / "l.csv")
    assert message in str(error.value)


def test_lingjun_with_bom_and_crlf_and_without_dsw(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes("\ufeffhost,ASW,PSW\r\na,S1,P1\r\nb,S1,P2\r\n".encode())
    topology = read_topology(str(tmp_path / "l.csv"))
    assert (topology.tiers[-1], topology.names[1]) == ("network", ["P1-S1", "P2-S1"])


def test_openb_nodes(tmp_path: Path, shared: Path) -> None:
    topology = read_topology(str(shared / "traces" / "openb_node_list_gpu_node.csv"))
    assert (topology.tiers, len(topology.names[0]), topology.total_gpus()) == (["machine", "network"], 1213, 6212)
    path = tmp_path / "n.csv"
    for text, message in {
        "sn,gpu\na,x\n": "n.csv:2: gpu: 'x': must be a whole number",
        "sn,model,gpu\na,T4\n": "n.csv:2: 2 fields where the header has 3",
        "sn,gpu\n,8\n": "n.csv:2: sn: is empty",
        "sn,gpu\na,8\na,8\n": "n.csv: a: two machines have this name",
        "sn,gpu\n": "n.csv: no machines in it",
    }.items():
        path.write_text(text)
        with pytest.raises(InputError) as error:
            import_file(path)
        assert message in str(error.value)
