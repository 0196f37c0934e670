"""Slurm's topology.conf and topology.yaml, and the files that count GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.formats.from_machines import ImportOptions
from dally.cluster.formats.known import import_file
from dally.cluster.formats.node_gpus import gres_gpus, read_config, read_scontrol, tres_gpus
from dally.cluster.links import connect, override
from dally.cluster.presets import find_preset
from dally.cluster.spec import cluster_files, read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError, InputWarning

TREE = """# two pods of two racks
SwitchName=core Switches=pod[1-2]
switchname=pod1 SWITCHES=leaf[1-2] LinkSpeed=100
SwitchName=pod2 Switches=leaf3,leaf4
SwitchName=leaf1 Nodes=gpu[001-004]
SwitchName=leaf2 Nodes=gpu[005-008]  # a comment
SwitchName=leaf3 \\
    Nodes=gpu[009-012]
SwitchName=leaf4 Nodes=gpu[013-015,020]
"""
BLOCKS = """BlockName=b1 Nodes=n[01-02]
BlockName=b2 Nodes=n[03-04]
BlockName=b3 Nodes=n[05-06]
BlockName=b4 Nodes=n[07-08]
BlockName=b5 Nodes=n09
BlockSizes=2,4
"""
YAML = """---
- topology: flat
  flat: true
- topology: fabric
  cluster_default: True
  tree:
    switches:
    - switch: core
      children: leaf[1-2]
    - switch: leaf1
      nodes: n[1-2]
    - switch: leaf2
      nodes: [n3, "n[4-5]"]
- topology: nvl
  block:
    block_sizes:
    - 2
    - 4
    blocks:
    - block: b1
      nodes: n[1-2]
    - block: b2
      nodes: n[3-4]
"""
EIGHT = ImportOptions(gpus_per_node=8)


def made(folder: Path, text: str, options: ImportOptions = EIGHT, name: str = "topology.conf") -> Topology:
    (folder / name).write_text(text)
    return import_file(folder / name, options).topology


def paths(topology: Topology) -> dict[str, str]:
    """Each machine's domains from the top down."""
    found = {}
    for machine, name in enumerate(topology.names[0]):
        above: list[str] = []
        domain = machine
        for tier in range(len(topology.tiers) - 2):
            domain = int(topology.parents[tier][domain])
            above.insert(0, topology.names[tier + 1][domain])
        found[name] = "/".join(above)
    return found


def test_a_tree(tmp_path: Path) -> None:
    topology = made(tmp_path, TREE)
    assert topology.tiers == ["machine", "rack", "pod", "network"]
    assert topology.names[1:] == [["leaf1", "leaf2", "leaf3", "leaf4"], ["pod1", "pod2"], ["network"]]
    assert topology.names[0][-2:] == ["gpu015", "gpu020"]
    assert topology.total_gpus() == 128


@pytest.mark.parametrize("change", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")])
def test_windows_may_have_had_the_file(change: object, tmp_path: Path) -> None:
    assert callable(change)
    (tmp_path / "t.conf").write_bytes(change(TREE).encode())
    assert paths(import_file(tmp_path / "t.conf", EIGHT).topology) == paths(made(tmp_path, TREE))


def test_leaves_at_different_depths_are_padded(tmp_path: Path) -> None:
    text = "SwitchName=c Switches=p,l2\nSwitchName=p Switches=l1\nSwitchName=l1 Nodes=a\nSwitchName=l2 Nodes=b\n"
    assert paths(made(tmp_path, text)) == {"a": "p/l1", "b": "l2/l2"}
    text = "SwitchName=c Switches=l1 Nodes=b\nSwitchName=l1 Nodes=a\n"
    assert paths(made(tmp_path, text)) == {"b": "c", "a": "l1"}


def test_several_roots_make_one_network(tmp_path: Path) -> None:
    topology = made(tmp_path, "SwitchName=s1 Nodes=a\nSwitchName=s2 Nodes=b\n")
    assert (topology.tiers, topology.names[1]) == (["machine", "rack", "network"], ["s1", "s2"])


def test_parallel_spines_are_one_domain(tmp_path: Path) -> None:
    """As slurmibtopology prints a fat tree: every spine above every leaf, the core above every spine."""
    text = (
        "SwitchName=core Switches=spine[1-2]\nSwitchName=spine1 Switches=leaf[1-2]\n"
        "SwitchName=spine2 Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=a\nSwitchName=leaf2 Nodes=b\n"
    )
    assert paths(made(tmp_path, text)) == {"a": "spine1/leaf1", "b": "spine1/leaf2"}


def test_blocks_and_blocks_of_blocks(tmp_path: Path) -> None:
    topology = made(tmp_path, BLOCKS)
    assert topology.tiers == ["machine", "block", "block4", "network"]
    assert topology.names[2] == ["b1..b2", "b3..b4", "b5..b5"]
    assert list(topology.child_counts[2]) == [2, 2, 1]
    assert made(tmp_path, BLOCKS.replace("BlockSizes=2,4\n", "")).tiers == ["machine", "block", "network"]


@pytest.mark.parametrize(
    ("name", "tiers", "machines"),
    [
        ("", ["machine", "rack", "network"], 5),
        ("fabric", ["machine", "rack", "network"], 5),
        ("nvl", ["machine", "block", "block4"], 4),
    ],
)
def test_yaml(name: str, tiers: list[str], machines: int, tmp_path: Path) -> None:
    topology = made(tmp_path, YAML, ImportOptions(gpus_per_node=8, topology_name=name), "topology.yaml")
    assert (topology.tiers, topology.machine_count()) == (tiers, machines)


def test_flat_yaml_takes_its_nodes_from_where_gpus_are_counted(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=x\nNodeName=n[1-3] Gres=gpu:4\nPartitionName=p Nodes=ALL\n")
    topology = made(tmp_path, YAML, ImportOptions(topology_name="flat"), "topology.yaml")
    assert (topology.tiers, topology.names[0]) == (["machine", "network"], ["n1", "n2", "n3"])


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:8", 8),
        ("gpu:a100:8(S:0-1)", 8),
        ("gpu:a100:4(S:0,2),gpu:v100:2,nic:3", 6),
        ("gpu", 1),
        ("gpu:tesla", 1),
        ("gpu:a100:no_consume:2", 2),
        ("craynetwork:4", 0),
        ("(null)", 0),
        ("", 0),
    ],
)
def test_gres(text: str, gpus: int) -> None:
    assert gres_gpus(text) == gpus


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=64,mem=1T,billing=64,gres/gpu=8,gres/gpu:a100=8", 8),
        ("gres/gpu:a100=4,gres/gpu:h100=2", 6),
        ("cpu=64", 0),
    ],
)
def test_tres(text: str, gpus: int) -> None:
    assert tres_gpus(text) == gpus


SCONTROL = """NodeName=gpu001 Arch=x86_64 CoresPerSocket=32
   AvailableFeatures=a100 Gres=gpu:a100:8(S:0-1)
   OS=Linux 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14
   State=IDLE+CLOUD ThreadsPerCore=2
   CfgTRES=cpu=128,mem=1T,billing=128,gres/gpu=8

NodeName=gpu002 Arch=x86_64 CoresPerSocket=32
   Gres=(null)
   State=DOWN*+DRAIN ThreadsPerCore=2
   CfgTRES=cpu=128,mem=1T,gres/gpu=4
   Reason=bad GPU [root@2024-01-01T00:00:00]

NodeName=login Arch=x86_64
   Gres=(null)
   State=MIXED
   CfgTRES=cpu=4
"""


@pytest.mark.parametrize("one_line", [False, True])
def test_scontrol(one_line: bool) -> None:
    text = SCONTROL
    if one_line:
        text = "\n".join(" ".join(block.split()) for block in SCONTROL.split("\n\n")) + "\n"
    counts = read_scontrol(Path("nodes.txt"), text)
    assert counts.of == {"gpu001": 8, "gpu002": 4, "login": 0}
    assert counts.down == {"gpu002": "DOWN*+DRAIN"}


def test_gres_conf() -> None:
    text = (
        "AutoDetect=off\nNodeName=a[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-31\n"
        "NodeName=a[1-2] Name=gpu Type=a100 File=/dev/nvidia[4-7]\nNodeName=b Name=gpu Count=2\n"
        "Name=mps Count=100\nNodeName=c AutoDetect=nvml\nName=gpu Count=1\n"
    )
    counts = read_config(Path("gres.conf"), text)
    assert (counts.of, counts.otherwise) == ({"a1": 8, "a2": 8, "b": 2}, 1)


def test_slurm_conf() -> None:
    text = "SlurmctldHost=head\nNodeName=DEFAULT CPUs=64 Gres=gpu:4\n"
    text += "NodeName=a[1-2] \\\n RealMemory=1\nNodeName=b Gres=gpu:2\n"
    assert read_config(Path("slurm.conf"), text).of == {"a1": 4, "a2": 4, "b": 2}


def test_what_is_left_out_is_told_by_reason(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text(SCONTROL + "\nNodeName=gpu009 Gres=gpu:8 State=IDLE\n")
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=s Nodes=gpu[001-003],login\n")
    found = import_file(conf)
    assert found.topology.names[0] == ["gpu001"]
    assert found.left_out == {
        "out of service": ["gpu002"],
        "without a GPU count": ["gpu003"],
        "not in the tree": ["gpu009"],
        "without GPUs": ["login"],
    }
    assert import_file(conf, ImportOptions(all_nodes=True)).topology.names[0] == ["gpu001", "gpu002"]
    with pytest.raises(
        InputError, match=r"topology.conf: 4 nodes left out: 1 out of service \(gpu002\), 1 without"
    ):
        import_file(conf, ImportOptions(strict=True))


def test_a_cluster_warns_of_what_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "t.conf").write_text("SwitchName=s Nodes=a,b\n#GPUs NodeName=a Gres=gpu:2\n")
    assert read_topology(str(tmp_path / "t.conf")).total_gpus() == 2
    assert caplog.messages == [f"dally: {tmp_path}/t.conf: 1 node left out: 1 without a GPU count (b)"]


def test_gpus_are_looked_for_beside_the_file(tmp_path: Path) -> None:
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=s Nodes=a,b\n")
    with pytest.raises(
        InputError, match=r"nothing says how many GPUs its nodes have; give --nodes FILE .* or put nodes"
    ):
        read_topology(str(conf))
    for name, text, gpus in (
        ("slurm.conf", "NodeName=a,b Gres=gpu:2\n", 4),
        ("gres.conf", "NodeName=a,b Name=gpu Count=4\n", 8),
        ("nodes.txt", "NodeName=a Gres=gpu:8 State=IDLE\nNodeName=b Gres=gpu:8 State=IDLE\n", 16),
    ):
        (tmp_path / name).write_text(text)
        assert read_topology(str(conf)).total_gpus() == gpus
        assert cluster_files(str(conf)) == [str(conf), str(tmp_path / name)]
    assert import_file(conf, ImportOptions(gres=tmp_path / "slurm.conf")).topology.total_gpus() == 4
    assert import_file(conf, ImportOptions(nodes=tmp_path / "nodes.txt")).topology.total_gpus() == 16
    assert import_file(conf, ImportOptions(gpus_per_node=3)).topology.total_gpus() == 6


CONF_MISTAKES = [
    ("SwitchName=a Switches=b\n", ":1: a: 'b' hangs below it, and there is no such switch"),
    ("SwitchName=a Nodes=n\nSwitchName=a Nodes=m\n", ":2: a: is already in line 1"),
    ("SwitchName=a Nodes=n\nSwitchName=b Nodes=m,n\n", ":2: b: node 'n' appears in 'a' too (in line 1)"),
    ("SwitchName=a Nodes=n,n\n", ":1: a: node 'n' appears twice in its list"),
    (
        "SwitchName=a Switches=b\nSwitchName=b Switches=a\n",
        ":1: a: switches hang below each other in a circle: a above b above a",
    ),
    ("SwitchName=a Switches=a\n", ":1: a: switches hang below each other in a circle: a above a"),
    (
        "SwitchName=a Switches=c,d\nSwitchName=b Switches=c\nSwitchName=c Nodes=n\nSwitchName=d Nodes=m\n",
        ":2: b: 'c' hangs below 'a' too (in line 1): not a tree",
    ),
    ("SwitchName=a Nodes=n[1-\n", ":1: nodes: 'n[1-': must be a name such as rack0 or a pattern"),
    ("SwitchName=a Nodes=n[0-999999999]\n", "'0-999999999' is not a rising range of at most 1000000 numbers"),
    ("SwitchName=a Nodes=n[0-9999]m[0-9999]\n", "stands for more than 1000000 names"),
    ("SwitchName=a Nodes=n[3-1]\n", "'3-1' is not a rising range"),
    ("SwitchName=a Nodes=n,,m\n", ":1: nodes: 'n,,m': must be a name"),
    ("\nSwitchName=a Node=n\n", ":2: node: unknown; known: switchname, switches, nodes, linkspeed"),
    ("SwitchName=a\n", ":1: a: neither Switches= nor Nodes="),
    ("SwitchName=a Nodes=n rubbish\n", ":1: 'rubbish': must be KEY=VALUE"),
    ('SwitchName="" Nodes=n\n', ":1: switchname: is empty"),
    ("SwitchName=a Nodes=n\nNodes=m\n", ":2: must begin with SwitchName=, BlockName=, BlockSizes= or RingName="),
    ("SwitchName=a Nodes=n\nBlockName=b Nodes=m\n", ":2: a block, but line 1 has a switch: give a tree or blocks"),
    ("BlockName=b Nodes=n\nBlockSizes=2,6\n", ":2: BlockSizes: 6: each size must be the first one times 2, 4, 8"),
    ("BlockName=b Nodes=n\nBlockSizes=0\n", ":2: BlockSizes: 0: must be at least 1"),
    ("BlockName=b Nodes=n\nBlockSizes=x\n", ":2: BlockSizes: 'x': must be a whole number"),
    ("BlockSizes=2\n", "no nodes in it"),
    ("SwitchName=a Nodes=n\n\0", ":2: holds a NUL byte"),
    ("SwitchName=a Nodes=\u200b\n", "a name with characters that cannot be printed"),
]


@pytest.mark.parametrize(("text", "message"), CONF_MISTAKES)
def test_mistakes_in_topology_conf(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        made(tmp_path, text)
    assert message in str(error.value)


def test_a_large_circle(tmp_path: Path) -> None:
    lines = [f"SwitchName=s{number} Switches=s{(number + 1) % 50_000}" for number in range(50_000)]
    with pytest.raises(InputError, match=r"in a circle: s0 above s1 above … above s49999 above s0"):
        made(tmp_path, "\n".join(lines))


def test_too_many_names_in_all(tmp_path: Path) -> None:
    text = "SwitchName=a Nodes=a[1-600000]\nSwitchName=b Nodes=b[1-600000]\n"
    with pytest.raises(InputError, match=r":2: nodes: 'b\[1-600000\]': over 1000000 names up to here"):
        made(tmp_path, text)


def test_too_deep_a_tree(tmp_path: Path) -> None:
    lines = [f"SwitchName=s{number} Switches=s{number + 1}" for number in range(20_000)]
    with pytest.raises(InputError, match="more than 16 switches above each other"):
        made(tmp_path, "\n".join([*lines, "SwitchName=s20000 Nodes=n"]))


@pytest.mark.parametrize(
    "text",
    [
        "SwitchName=a Nodes=" + "n," * 3_000_000,
        "SwitchName=a Nodes=n[" + "1," * 3_000_000,
        "x" * 10_000_000 + "\nSwitchName=a Nodes=n",
    ],
)
def test_a_line_of_megabytes(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be|stands for more"):
        made(tmp_path, text)


YAML_MISTAKES = [
    (YAML.replace("nodes: n[1-2]", "nodes: n[1-"), "topology.yaml:11: nodes: 'n[1-': must be a name"),
    (YAML.replace("    - switch: leaf2", "    - switch: leaf1"), ":12: leaf1: is already in line 10"),
    (YAML.replace("leaf[1-2]", "leaf[1-3]"), ":8: core: 'leaf3' hangs below it, and there is no such switch"),
    (YAML.replace("    - switch: core", "    - name: core"), ":8: switch: missing; here are name, children"),
    (YAML.replace("  flat: true\n", "  flat: true\n  tree: x\n"), ""),
    (YAML.replace("  tree:\n", "  tree: x\n  other:\n"), ":6: switches: 'x': must be a mapping of fields"),
    (YAML.replace("    switches:\n", "    switches: 3\n    x:\n"), ":7: switches: '3': must be a list"),
    (YAML[:120] + " {", "broken YAML"),
    ("- topology: a\n  tree: [[[[" + "[" * 100_000, "nested more than 32 deep"),
    ("- topology: a\n  tree: *b\n", "broken YAML: unknown alias 'b'"),
    ("- topology: a\n  topology: b\n", ":2: topology: appears twice"),
    ("- topology: a\n", ":1: a topology has one of tree, block, flat, ring, torus3d; this one has 0"),
    ("- topology: a\n  flat: true\n", ":2: flat: nothing says which nodes there are"),
    ("- topology: a\n  flat: true\n---\n- x\n", ":4: a second document"),
]


@pytest.mark.parametrize(("text", "message"), YAML_MISTAKES)
def test_mistakes_in_topology_yaml(text: str, message: str, tmp_path: Path) -> None:
    if not message:
        assert made(tmp_path, text, EIGHT, "topology.yaml").machine_count() == 5  # not the one that is asked for
        return
    with pytest.raises(InputError) as error:
        made(tmp_path, text, EIGHT, "topology.yaml")
    assert message in str(error.value)


def test_an_unknown_topology_of_a_yaml(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown topology 'fabrik'; did you mean 'fabric'"):
        made(tmp_path, YAML, ImportOptions(gpus_per_node=8, topology_name="fabrik"), "topology.yaml")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gres.conf", "AutoDetect=nvml\n", "gres.conf: counts no GPUs (AutoDetect leaves that to the nodes); give"),
        ("gres.conf", "\nNodeName=a Name=gpu Count=many\n", "gres.conf:2: must be a whole number"),
        ("gres.conf", "NodeName=a Name=gpu File=/dev/nvidia[0-\n", "gres.conf:1: File: '/dev/nvidia[0-': must be"),
        ("slurm.conf", "NodeName=a[ Gres=gpu:8\n", "slurm.conf:1: NodeName: 'a[': must be a name"),
        ("slurm.conf", "NodeName=a Gres=gpu:8(S:0\n", "slurm.conf:1: Gres: 'gpu:8(S:0': must be like gpu:8"),
        ("nodes.txt", "\n\n", "nodes.txt: no NodeName= at the start of a line; expected the output of scontrol"),
        ("nodes.txt", "NodeName=b\nNodeName=a Gres=gpu:x:(\n", "nodes.txt:2: a: Gres: 'gpu:x:(': must be like"),
        ("nodes.txt", "NodeName=a CfgTRES=gres/gpu=1K\n", "nodes.txt:1: a: must be a whole number"),
        ("nodes.txt", "NodeName=a Gres=gpu:99999\n", "a: 99999 GPUs: at most 1024 a machine"),
        ("nodes.txt", "NodeName=a Gres=(null)\n", "no machines to use; 1 node left out: 1 without GPUs (a)"),
    ],
)
def test_mistakes_where_gpus_are_counted(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        made(tmp_path, "SwitchName=s Nodes=a\n", ImportOptions())
    assert message in str(error.value)


TORUS = """- topology: pods
  cluster_default: true
  torus3d:
    toruses:
    - name: pod1
      dims: {x: 4, y: 4, z: 2}
      nodes: node[1-32]
      placements:
      - dims: {x: 2, y: 2, z: 2}
      - dims: {x: 2, y: 2, z: 1}
      - dims: {x: 4, y: 4, z: 2}
"""


def test_a_torus_is_the_tree_of_its_placements(tmp_path: Path) -> None:
    topology = made(tmp_path, TORUS, ImportOptions(gpus_per_node=4), "topology.yaml")
    assert topology.tiers == ["machine", "2x2x1", "2x2x2", "4x4x2"]
    first, after = topology.machines_of(2, 0)
    # The block at the origin: x and y of 0 and 1 in both layers, as Slurm's own test has them.
    assert sorted(topology.names[0][first:after], key=lambda name: int(name[4:])) == [
        f"node{number}" for number in (1, 2, 5, 6, 17, 18, 21, 22)
    ]
    assert [link.torus for link in (topology.links[tier][0] for tier in range(4))] == [
        "",
        "2x2x1",
        "2x2x2",
        "4x4x2",
    ]
    network = connect(topology, override(find_preset("normal"), {"torus_gbps": "25"}))
    assert network.torus is not None
    assert network.torus.unit == 4
    assert network.torus.shapes[-1] == [4, 4, 2]
    assert connect(topology, find_preset("normal")).torus is None
    two = TORUS + TORUS[TORUS.index("    - name") :].replace("pod1", "pod2").replace("node[1-32]", "node[33-64]")
    both = made(tmp_path, two, ImportOptions(gpus_per_node=4), "topology.yaml")
    assert both.tiers == ["machine", "2x2x1", "2x2x2", "4x4x2", "network"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TORUS.replace("node[1-32]", "node[1-31]"), "topology.yaml:5: pod1: 31 nodes, but 4x4x2 are 32"),
        (
            TORUS.replace("x: 4, y: 4, z: 2}\n      nodes", "x: 0, y: 4, z: 2}\n      nodes"),
            "x: '0': must be a whole",
        ),
        (TORUS.replace("dims: {x: 4, y: 4, z: 2}\n      nodes", "nodes"), "dims: missing"),
        ("- topology: a\n  torus3d:\n    toruses: []\n", "toruses: none given"),
        (TORUS + TORUS[TORUS.index("    - name") :], "pod1: two toruses have this name"),
        (
            TORUS + TORUS[TORUS.index("    - name") :].replace("pod1", "pod2").replace("z: 1", "z: 2"),
            "pod2: has other dims or placements than 'pod1'",
        ),
    ],
)
def test_mistakes_in_a_torus(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        made(tmp_path, text, EIGHT, "topology.yaml")


def test_placements_that_do_not_nest_are_named_in_a_warning(tmp_path: Path) -> None:
    text = TORUS.replace("x: 2, y: 2, z: 1", "x: 4, y: 1, z: 1")
    with pytest.warns(InputWarning, match="4x1x1 does not divide 2x2x2"):
        topology = made(tmp_path, text, EIGHT, "topology.yaml")
    assert topology.tiers == ["machine", "2x2x2", "4x4x2"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("topology.conf", "RingName=r1 Nodes=n[1-4]\nRingName=r2 Nodes=n[5-8]\n"),
        (
            "topology.yaml",
            "- topology: t\n  ring:\n    rings:\n    - {ring: r1, nodes: 'n[1-4]'}\n"
            "    - {ring: r2, nodes: 'n[5-8]'}\n",
        ),
    ],
)
def test_rings_are_domains(name: str, text: str, tmp_path: Path) -> None:
    topology = made(tmp_path, text, EIGHT, name)
    assert topology.tiers == ["machine", "ring", "network"]
    assert topology.names[1] == ["r1", "r2"]
    assert [int(gpus) for gpus in topology.gpus[1]] == [32, 32]


def test_rings_beside_switches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"topology\.conf:2: a ring beside switches or blocks"):
        made(tmp_path, "SwitchName=s Nodes=n[1-4]\nRingName=r Nodes=n[5-8]\n", EIGHT, "topology.conf")
