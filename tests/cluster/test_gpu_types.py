"""The type of a machine's GPUs, in every format that states it, and what is done to topologies keeps it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally.cli.cluster.topology import gpus_by_type, summary_line, topology_record
from dally.cluster.delta import change, without_links
from dally.cluster.formats.from_machines import ImportOptions
from dally.cluster.formats.known import import_file
from dally.cluster.formats.node_gpus import gres_type
from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.writers import to_slurm, to_toml
from dally.cluster.outline import draw
from dally.cluster.topology import Topology
from dally.live.backends.slurm.nodes_json import machines_of
from dally.live.backends.slurm.shown_topology import topology_of

TREE = "SwitchName=r0 Nodes=n[1-2]\nSwitchName=r1 Nodes=n3\nSwitchName=s Switches=r[0-1]\n"
SCONTROL = """NodeName=n1 Gres=gpu:a100:8(S:0-1) State=IDLE
NodeName=n2 Gres=(null) State=IDLE CfgTRES=cpu=64,gres/gpu=8,gres/gpu:a100=8
NodeName=n3 Gres=gpu:2 State=IDLE
"""
GRES = "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-7]\nNodeName=n3 Name=gpu File=/dev/nvidia[0-1]\n"
CONF = "NodeName=DEFAULT Gres=gpu:a100:8\nNodeName=n[1-2]\nNodeName=n3 Gres=gpu:2\n"
WANTED = {"n1": "a100", "n2": "a100", "n3": ""}


def types(topology: Topology) -> dict[str, str]:
    return dict(zip(topology.names[0], topology.gpu_types, strict=True))


@pytest.mark.parametrize(
    ("text", "gpu_type"),
    [
        ("gpu:8", ""),
        ("gpu:a100:8(S:0-1),nic:mlx:2", "a100"),
        ("gpu:a100:4(S:0,2),gpu:v100:2", "a100+v100"),
        ("gpu:tesla", "tesla"),
        ("gpu", ""),
        ("(null)", ""),
    ],
)
def test_gres(text: str, gpu_type: str) -> None:
    assert gres_type(text) == gpu_type


@pytest.mark.parametrize(("option", "text"), [("nodes", SCONTROL), ("gres", GRES), ("gres", CONF)])
@pytest.mark.parametrize("topograph", [False, True])
def test_slurm_and_topograph(option: str, text: str, topograph: bool, tmp_path: Path) -> None:
    file = tmp_path / "topology"
    instances = [{"id": name, "network_layers": ["r0" if name < "n3" else "r1", "s"]} for name in WANTED]
    file.write_text(json.dumps({"instances": instances}) if topograph else TREE)
    (tmp_path / "counts").write_text(text)
    options = (
        ImportOptions(nodes=tmp_path / "counts") if option == "nodes" else ImportOptions(gres=tmp_path / "counts")
    )
    assert types(import_file(file, options).topology) == WANTED


def test_gres_for_all_nodes(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text(TREE)
    (tmp_path / "gres.conf").write_text("Name=gpu Type=h100 Count=8\n")
    assert set(types(import_file(tmp_path / "topology.conf").topology).values()) == {"h100"}


def test_kubernetes(tmp_path: Path) -> None:
    def node(name: str, **labels: str) -> dict[str, object]:
        place = {"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": name}
        return {
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": place | {key.replace("__", "/"): text for key, text in labels.items()},
            },
            "status": {"allocatable": {"nvidia.com/gpu": "8"}},
        }

    nodes = [node("a", **{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}), node("b")]
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "List", "items": nodes}))
    options = ImportOptions(labels=("topology.kubernetes.io/zone",))
    assert types(import_file(tmp_path / "nodes.json", options).topology) == {"a": "NVIDIA-H100-80GB-HBM3", "b": ""}


def test_openb(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,P100\nb,1,1,8,V100M32\n")
    assert types(import_file(tmp_path / "nodes.csv").topology) == {"a": "P100", "b": "V100M32"}


LAB = """[[tiers]]
name = "machine"
[[tiers]]
name = "rack"
[[tiers]]
name = "network"
[[machines]]
path = "r0"
names = "a[0-1]"
gpus = 8
gpu_type = "A100 80GB"
[[machines]]
path = "r0"
names = "v0"
gpus = 8
gpu_type = "V100"
[[machines]]
path = "r1"
names = "u0"
gpus = 8
"""


@pytest.fixture
def lab() -> Topology:
    return parse_toml(Path("lab.toml"), LAB)


def test_written_and_read_back(lab: Topology, tmp_path: Path) -> None:
    assert types(parse_toml(Path("lab.toml"), to_toml(lab))) == types(lab)
    (tmp_path / "topology.conf").write_text(to_slurm(lab))
    again = types(import_file(tmp_path / "topology.conf").topology)
    assert again == {"a0": "A100-80GB", "a1": "A100-80GB", "v0": "V100", "u0": ""}


def test_changed_clusters_keep_them(lab: Topology) -> None:
    assert without_links(lab).gpu_types == lab.gpu_types
    more = change(lab, "+1 rack, -1 machine")
    assert gpus_by_type(more) == {"A100 80GB": 32, "V100": 8, "": 8}
    assert gpus_by_type(change(lab, "-1 rack")) == {"": 8}


def test_shown(lab: Topology) -> None:
    assert summary_line(lab).endswith("; 16 A100 80GB, 8 V100, 8 of no stated type")
    assert "a0 … a1: 2 × 8 A100 80GB GPUs" in draw(lab)
    machines = topology_record(lab)["machines"]
    assert isinstance(machines, list)
    assert [machine.get("gpu_type") for machine in machines] == ["A100 80GB", "A100 80GB", "V100", None]


def test_of_a_live_slurm() -> None:
    rows = [
        {"name": f"n{number}", "gres": gres, "state": "idle"} for number, gres in ((1, "gpu:a100:8"), (3, "gpu:2"))
    ]
    assert types(topology_of(TREE, machines_of(rows, frozenset()))) == {"n1": "a100", "n3": ""}
