"""Kubernetes nodes, placed by their labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dally.cluster.formats.from_machines import Imported, ImportOptions
from dally.cluster.formats.known import import_file
from dally.cluster.formats.kubernetes import PRESETS
from dally.cluster.formats.writers import to_toml
from dally.cluster.outline import draw
from dally.errors import InputError
from dally.runs.execute import execute
from dally.runs.scenario import Scenario

AWS = "topology.k8s.aws/network-node-layer-"


def node(name: str, labels: dict[str, str], gpus: object = "8", **more: Any) -> dict[str, Any]:
    """A node with those of its many fields that matter."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": more.get("spec", {}),
        "status": {
            "allocatable": {"cpu": "190", "memory": "2Ti", "nvidia.com/gpu": gpus},
            "conditions": [{"type": "Ready", "status": more.get("ready", "True")}],
        },
    }


def read(folder: Path, nodes: list[dict[str, Any]], **options: Any) -> Imported:
    (folder / "nodes.json").write_text(json.dumps({"kind": "List", "items": nodes}))
    return import_file(folder / "nodes.json", ImportOptions(**options))


def cluster_of_500() -> list[dict[str, Any]]:
    """AWS: 2 × 5 × 5 network nodes of 10 instances each; 20 of the 500 are for other purposes or broken."""
    nodes = []
    for number in range(500):
        labels = {
            f"{AWS}1": f"nn-{number // 250}",
            f"{AWS}2": f"nn-{number // 50}",
            f"{AWS}3": f"nn-{number // 10}",
        }
        kind = number % 25
        nodes.append(
            node(
                f"ip-10-0-{number // 100}-{number % 100}",
                labels if number != 499 else {},
                "0" if kind == 3 and number < 250 else "8",
                spec={"unschedulable": True} if number in (7, 8, 9) else {},
                ready="Unknown" if number in (17, 18, 19, 20, 21, 22) else "True",
            )
        )
    return nodes


def test_500_nodes_are_imported_simulated_and_drawn(tmp_path: Path) -> None:
    found = read(tmp_path, cluster_of_500())
    topology = found.topology
    assert {reason: len(names) for reason, names in found.left_out.items()} == {
        "without GPUs": 10,
        "cordoned": 3,
        "not Ready": 6,
        f"without label {AWS}1": 1,
    }
    assert topology.tiers == ["machine", "layer3", "layer2", "layer1", "network"]
    assert [len(names) for names in topology.names] == [480, 50, 10, 2, 1]
    assert topology.total_gpus() == 480 * 8
    assert draw(topology).splitlines()[0] == "network: 3840 GPUs"
    (tmp_path / "cluster.toml").write_text(to_toml(topology))
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_s,gpus,duration_s\n" + "".join(f"j{n},{n},{1 << n % 9},3600\n" for n in range(100))
    )
    runs = []
    for cluster in ("nodes.json", "cluster.toml"):
        scenario = Scenario(str(tmp_path / "jobs.csv"), str(tmp_path / cluster), "dally", network="slow")
        record = execute(scenario)
        assert (record.summary["finished"], record.skipped) == (100, 0)
        runs.append([job.finish_s for job in record.outcomes])
    assert runs[0] == runs[1]


def test_down_nodes_can_be_kept_and_strictness_asked_for(tmp_path: Path) -> None:
    nodes = cluster_of_500()
    assert read(tmp_path, nodes, all_nodes=True).topology.machine_count() == 489
    with pytest.raises(InputError, match=r"20 nodes left out: .* 1 without label \S+-1 \(ip-10-0-4-99\)"):
        read(tmp_path, nodes, strict=True)


@pytest.mark.parametrize(
    ("preset", "labels", "tiers"),
    [
        ("aws", {f"{AWS}1": "t", f"{AWS}2": "m", f"{AWS}3": "b"}, ["layer3", "layer2", "layer1"]),
        ("aws", {f"{AWS}{n}": str(n) for n in (1, 2, 3, 4)}, ["layer4", "layer3", "layer2", "layer1"]),
        (
            "gcp",
            {f"cloud.google.com/gce-topology-{k}": k for k in ("block", "subblock")},
            ["subblock", "block"],
        ),
        (
            "oci",
            {f"oci.oraclecloud.com/rdma.{k}_id": k for k in ("hpc_island", "network_block", "local_block")},
            ["local-block", "network-block", "island"],
        ),
        (
            "nvidia",
            {f"network.topology.nvidia.com/{k}": k for k in ("accelerator", "leaf", "spine", "core")},
            ["nvlink", "leaf", "spine", "core"],
        ),
        (
            "nvidia",
            {f"network.topology.nvidia.com/{k}": k for k in ("block", "spine", "datacenter")},
            ["leaf", "spine", "core"],
        ),
        (
            "topograph",
            {f"fabric.topograph.run/tier-{n}": str(n) for n in (0, 1)} | {"accelerator.topograph.run/domain": "d"},
            ["nvlink", "fabric0", "fabric1"],
        ),
        (
            "kueue",
            {f"cloud.provider.com/topology-{k}": k for k in ("block", "rack")},
            ["rack", "block"],
        ),
    ],
)
def test_presets_go_from_the_top_down(
    preset: str, labels: dict[str, str], tiers: list[str], tmp_path: Path
) -> None:
    for options in ({}, {"preset": preset}):
        topology = read(tmp_path, [node("a", labels), node("b", labels)], **options).topology
        assert topology.tiers == ["machine", *tiers]  # the top label has one value: it is the network
        assert [names[0] for names in topology.names[1:-1]] == list(_values(preset, labels))[1:][::-1]


def _values(preset: str, labels: dict[str, str]) -> list[str]:
    return [labels[label] for level in PRESETS[preset] for label in level.labels if label in labels]


def test_a_host_label_is_a_tier_only_where_nodes_share_hosts(tmp_path: Path) -> None:
    keys = [f"cloud.google.com/gce-topology-{key}" for key in ("block", "subblock", "host")]
    for hosts, depth in ((["h1", "h2", "h3"], 3), (["h1", "h1", "h2"], 4)):
        nodes = [node(f"n{n}", dict(zip(keys, ("b", "s", host), strict=True))) for n, host in enumerate(hosts)]
        assert len(read(tmp_path, nodes).topology.tiers) == depth
    named = read(tmp_path, nodes, labels=(keys[1], "kubernetes.io/hostname")).topology
    assert named.tiers == ["machine", "gce-topology-subblock"]


def test_nodes_without_an_optional_label_are_padded(tmp_path: Path) -> None:
    three = {f"{AWS}{n}": f"x{n}" for n in (1, 2, 3)}
    topology = read(tmp_path, [node("a", three | {f"{AWS}4": "x4"}), node("b", three)]).topology
    assert topology.names[1] == ["x4", "x3"]
    assert topology.names[2] == ["x3"]


def test_rack_names_that_recur_are_told_apart(tmp_path: Path) -> None:
    nodes = [node(f"n{b}{r}", {"block": f"b{b}", "rack": f"r{r}"}) for b in range(2) for r in range(2)]
    topology = read(tmp_path, nodes, labels=("block", "rack")).topology
    assert topology.names[1] == ["b0-r0", "b0-r1", "b1-r0", "b1-r1"]


def test_amd_and_capacity_count_too(tmp_path: Path) -> None:
    amd = node("a", {"rack": "r"})
    amd["status"] = {"capacity": {"amd.com/gpu": 4}}
    assert read(tmp_path, [amd], labels=("rack",)).topology.total_gpus() == 4


def test_one_node_alone(tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text(json.dumps(node("a", {"rack": "r"})))
    assert import_file(tmp_path / "n.json", ImportOptions(labels=("rack",))).topology.names[0] == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"items": [\n{"metadata": ', "nodes.json:2: broken JSON: Expecting value"),
        ('{"items": 3}', "nodes.json: items: 3: must be a list"),
        ('{"items": [3]}', "nodes.json: items[0]: 3: must be an object"),
        ('{"items": [{"metadata": {}}]}', "nodes.json: items[0].metadata.name: missing"),
        ('{"items": []}', "nodes.json: no machines in it"),
        ('{"items": [{"metadata": {"name": "a"}}]}', "no machines to use; 1 node left out: 1 without GPUs (a)"),
        (
            json.dumps({"items": [node("a", {"my-rack": "r"})]}),
            "no known labels give the position of its nodes; name them",
        ),
        (json.dumps({"items": [node("a", {"my-rack": "r"})]}), "they have 'my-rack'"),
        (
            json.dumps({"items": [node("a", {}, "1k")]}),
            "items[0] (a): nvidia.com/gpu: '1k': must be a whole number",
        ),
        (json.dumps({"items": [node("a", {}, -1)]}), "nvidia.com/gpu: -1: must be a whole number"),
        ('{"items":' * 100_000, "broken JSON: nested too deep"),
        ('{"items": [' + "9" * 5000, "broken JSON"),
        ('{"items": "\0"}', "nodes.json:1: holds a NUL byte"),
        (
            json.dumps({"items": [node("a\ud800", {f"{AWS}1": "x"})]}),
            "a name with characters that cannot be printed",
        ),
        (json.dumps({"items": [node("a", {f"{AWS}1": "x"})] * 2}), "a: two machines have this name"),
        (
            "[1]",
            "is not a topology file of a known format: toml, slurm, slurm-yaml, topograph, kubernetes, lingjun",
        ),
        ("", "is not a topology file of a known format"),
    ],
)
def test_mistakes(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(text)
    with pytest.raises(InputError) as error:
        import_file(tmp_path / "nodes.json")
    assert message in str(error.value)


def test_labels_that_no_node_has(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no known labels"):
        read(tmp_path, [node("a", {})], labels=("rack",))
    with pytest.raises(InputError, match="no node has those of --preset gcp; --preset aws fits 1 of 2 nodes"):
        read(tmp_path, [node("a", {f"{AWS}1": "x"}), node("b", {})], preset="gcp")
    with pytest.raises(InputError, match="no node has those of --labels; --preset aws fits 1 of 1 nodes"):
        read(tmp_path, [node("a", {f"{AWS}1": "x"})], labels=("rack",))
    with pytest.raises(InputError, match="unknown preset of labels 'awz'; did you mean 'aws'"):
        read(tmp_path, [node("a", {})], preset="awz")
    with pytest.raises(InputError, match="--labels or --preset, not both"):
        read(tmp_path, [node("a", {})], preset="aws", labels=("rack",))
