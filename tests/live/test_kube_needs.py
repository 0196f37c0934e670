"""What pods ask for, and whether the scheduler finds the nodes that have it; the server is in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dally.live.backends.kubernetes import KubernetesBackend
from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.pod_needs import MB, Needs, needs_of
from dally.live.backends.kubernetes.taints import Taint, tolerations_of, untolerated
from dally.live.config import Setup
from tests.live.bench import LiveBench
from tests.live.kube_cluster import pod
from tests.live.kube_memory import Server

GPU = "nvidia.com/gpu"


class FakeBench(LiveBench):
    """A scheduler on a server in memory, cycle by cycle."""

    def __init__(self, backend: KubernetesBackend, folder: Path) -> None:
        super().__init__(backend, folder, Setup("fifo-backfill"), 1.0)

    def decide(self) -> None:
        self.problems += self.scheduler.run_cycle().problems

    def pause(self) -> None:
        pass


def asks(**requests: str) -> Entry:
    return {"resources": {"requests": {name.replace("_", "-"): value for name, value in requests.items()}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [asks(cpu="2"), asks(cpu="500m", memory="1Mi")]}, Needs(0, 2.5, MB, (("pods", 1.0),))),
        ({"containers": [asks(cpu="2")], "initContainers": [asks(cpu="3"), asks(cpu="1")]}, 3.0),
        ({"containers": [asks(cpu="2")], "initContainers": [asks(cpu="1") | {"restartPolicy": "Always"}]}, 3.0),
        (
            {
                "containers": [asks(cpu="1")],
                "initContainers": [asks(cpu="1") | {"restartPolicy": "Always"}, asks(cpu="4")],
            },
            5.0,
        ),
        ({"containers": [asks(cpu="2")], "overhead": {"cpu": "250m"}}, 2.25),
        (
            {"containers": [{"resources": {"limits": {GPU: "8", "rdma/hca": "4", "ephemeral-storage": "1Gi"}}}]},
            Needs(8, 0.0, 0.0, (("ephemeral-storage", 1024.0), ("pods", 1.0), ("rdma/hca", 4.0))),
        ),
    ],
)
def test_what_a_pod_takes(spec: Entry, expected: Any) -> None:
    found = needs_of(spec)
    assert (found.cpus if isinstance(expected, float) else found) == expected


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"key": "team", "value": "a", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "value": "b"}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration: Entry, tolerates: bool) -> None:
    taint = Taint("team", "a", "NoSchedule")
    assert (untolerated([taint], tolerations_of({"tolerations": [toleration]})) is None) == tolerates


def gang(name: str, node: str = "", scheduler: str = "dally", **more: Any) -> Entry:
    """A pod of 8 GPUs."""
    limits = {GPU: "8", **more.pop("limits", {})}
    entry = pod(name, 8, schedulerName=scheduler, **more)
    entry["spec"]["containers"][0]["resources"] = {"limits": limits}
    entry["metadata"] |= {"namespace": "a", "uid": name}
    entry["spec"] |= {"nodeName": node} if node else {}
    return entry


def cpu_pod(name: str, node: str, **requests: str) -> Entry:
    """A pod of another scheduler, without GPUs."""
    entry = gang(name, node, "default-scheduler")
    entry["spec"]["containers"] = [asks(**requests)]
    return entry


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("case", "node"),
    [
        ({"limits": {"cpu": "64"}, "there": cpu_pod("busy", "n1", cpu="40")}, "n2"),
        ({"limits": {"memory": "900Gi"}, "there": cpu_pod("busy", "n1", memory="500Gi")}, "n2"),
        ({"limits": {}, "n1": {"pods": "1"}, "there": cpu_pod("busy", "n1", cpu="1")}, "n2"),
        ({"limits": {"rdma/hca": "2"}, "n1": {"rdma/hca": "1"}, "n2": {"rdma/hca": "8"}}, "n2"),
        ({"limits": {"ephemeral-storage": "10Gi"}, "n2": {"ephemeral-storage": "20Gi"}}, "n2"),
        ({"nodeSelector": {"pool": "b"}}, "n2"),
        ({"n1_taints": [TAINT]}, "n2"),
        ({"n1_taints": [TAINT], "n2_taints": [TAINT], "tolerations": [TAINT]}, "n1"),
        ({"limits": {"cpu": "97"}}, ""),
        ({"limits": {"rdma/hca": "1"}}, ""),
        ({"nodeSelector": {"pool": "c"}}, ""),
        ({"n1_taints": [TAINT], "n2_taints": [TAINT]}, ""),
    ],
)
def test_it_goes_where_there_is_what_it_asks_for(
    server: Server, backend: KubernetesBackend, tmp_path: Path, case: dict[str, Any], node: str
) -> None:
    """At the first attempt: no node without it is tried. Where no node could ever have it, that is said."""
    for at, entry in zip(("n1", "n2"), server.nodes, strict=True):
        entry["metadata"]["labels"] = {"pool": {"n1": "a", "n2": "b"}[at]}
        entry["spec"] = {"taints": case.pop(f"{at}_taints", [])}
        entry["status"] = {"allocatable": {**entry["status"]["allocatable"], "pods": "110", **case.pop(at, {})}}
    there = case.pop("there", None)
    server.pods += [there] if there else []
    server.pods.append(gang("p", **case))
    bench = FakeBench(backend, tmp_path)
    for _ in range(3):
        bench.cycle()
    binds = [body["target"]["name"] for path, body in server.orders("POST").items() if path.endswith("/binding")]
    assert binds == ([node] if node else [])
    refused = [problem for problem in bench.problems if problem.startswith("start of job")]
    assert refused == []
    if not node:
        assert "a.pod.p" in bench.scheduler.roster.unschedulable


def required(kind: str, key: str, **labels: str) -> Entry:
    """A rule by other pods."""
    rule = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}


HOST, RACK = "kubernetes.io/hostname", "rack"
PORT = {"containerPort": 80, "hostPort": 8080}
APART = "required podAntiAffinity among its own pods by rack"
SPREAD = "topologySpreadConstraints with DoNotSchedule among its own pods"


@pytest.mark.parametrize(
    ("rules", "seats", "state"),
    [
        ({"affinity": required("podAntiAffinity", HOST, app="g")}, {"n1", "n2"}, ""),  # a pod per node
        ({"ports": [PORT]}, {"n1", "n2"}, ""),
        ({"affinity": required("podAffinity", HOST, app="g")}, {"n1"}, ""),  # all in one domain,
        ({"affinity": required("podAffinity", RACK, app="g"), "gpus": "8"}, set(), ""),  # which none can hold
        ({"affinity": required("podAffinity", RACK, app="db")}, {"n1"}, ""),
        ({"affinity": required("podAntiAffinity", RACK, app="db")}, {"n2"}, ""),
        ({"affinity": required("podAffinity", RACK, app="no")}, set(), "blocked"),
        ({"affinity": required("podAntiAffinity", RACK, app="g")}, set(), APART),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "g"}}}
                ]
            },
            set(),
            SPREAD,
        ),
    ],
)
def test_rules_by_other_pods(
    server: Server, backend: KubernetesBackend, tmp_path: Path, rules: dict[str, Any], seats: set[str], state: str
) -> None:
    """A gang of two pods of 4 GPUs; on n1 is a pod of another app. What is not modelled is left alone, and said."""
    for name, entry in zip(("n1", "n2"), server.nodes, strict=True):
        entry["metadata"]["labels"] = {HOST: name, RACK: f"r-{name}"}
    server.pods.append(cpu_pod("db", "n1"))
    server.pods[0]["metadata"]["labels"] = {"app": "db"}
    ports, gpus = rules.pop("ports", None), rules.pop("gpus", "4")
    for number in range(2):
        labels = {"app": "g", "dally.io/gang": "g", "dally.io/gang-size": "2"}
        entry = gang(f"g{number}", labels=labels, **rules)
        entry["spec"]["containers"][0] |= {"resources": {"limits": {GPU: gpus}}} | (
            {"ports": ports} if ports else {}
        )
        server.pods.append(entry)
    bench = FakeBench(backend, tmp_path)
    for _ in range(3):
        bench.cycle()
    binds = [body["target"]["name"] for path, body in server.orders("POST").items() if path.endswith("/binding")]
    assert (set(binds), len(binds)) == (seats, 2 * bool(seats))
    assert not [problem for problem in bench.problems if problem.startswith("start of job")]
    (seen,) = [job for job in backend.snapshot().jobs if job.spec.name == "g"]
    if state == "blocked":
        assert seen.state == "blocked"
        assert "no pod that it must be near" in seen.reason
    elif state:
        assert (seen.state, seen.reason) == (
            "held", f"it has {state}, which Dally does not model; see docs/kubernetes.md",
        )  # fmt: skip


CLAIMS, CLASSES = "/api/v1/namespaces/a/persistentvolumeclaims", "/apis/storage.k8s.io/v1/storageclasses"
DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def test_a_volume_is_made_where_its_pod_goes(server: Server, backend: KubernetesBackend, tmp_path: Path) -> None:
    """The node is chosen before the pod is bound there, within the zones of the class; as kube-scheduler does."""
    for name, entry in zip(("n1", "n2"), server.nodes, strict=True):
        entry["metadata"]["labels"] = {"zone": f"z-{name}"}
    zones = [{"matchLabelExpressions": [{"key": "zone", "values": ["z-n2"]}]}]
    late = {"provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": zones}
    server.objects |= {
        f"{CLAIMS}/data": {"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}},
        f"{CLASSES}/late": late,
    }
    server.pods.append(gang("p", volumes=DATA))
    bench = FakeBench(backend, tmp_path)
    for _ in range(2):
        bench.cycle()
    orders = [(method, path, body) for method, path, body in server.asked if method in ("PATCH", "POST")]
    chosen, bound = (one for one in orders if one[1].endswith(("/data", "/binding")))
    assert chosen == (
        "PATCH", f"{CLAIMS}/data",
        {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n2"}}},
    )  # fmt: skip
    assert bound[2]["target"]["name"] == "n2"


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ({"spec": {"storageClassName": "now"}}, "its claim data is not bound"),
        (
            {"spec": {"storageClassName": "local"}},
            "a claim of class local, which takes a volume that is there already",
        ),
        ({"spec": {"volumeName": "v"}}, "its claim data is being bound"),
        (None, "its claim data is not there"),
    ],
)
def test_a_claim_that_is_waited_for(
    server: Server, backend: KubernetesBackend, claim: Entry | None, reason: str
) -> None:
    server.objects |= {
        f"{CLASSES}/now": {"provisioner": "x"},
        f"{CLASSES}/local": {
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    }
    if claim is not None:
        server.objects[f"{CLAIMS}/data"] = {"metadata": {"name": "data"}, **claim}
    server.pods.append(gang("p", volumes=DATA))
    (job,) = backend.snapshot().jobs
    assert job.state == "held"
    assert reason in job.reason
