"""Random pods and nodes, and which nodes kube-scheduler's own filters leave each pod."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.pod_needs import Needs, needs_of, room_of, total_needs
from tests.live.kube_cluster import NODES, PODS, KubeCluster, condition, until

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "example.com/rack"
SELECTED, BIND = "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bind-completed"
GPU: Final = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class RandomCluster:
    """Draws everything from one seed."""

    def __init__(self, seed: int, nodes: int, placed: int, pods: int) -> None:
        self._chance = random.Random(seed)
        self.names = [f"r{number:02d}" for number in range(nodes)]
        self.claims = self._claims()
        self.nodes = [self._node(number) for number in range(nodes)]
        self._there: dict[str, list[Needs]] = {name: [] for name in self.names}
        self.placed = [row for number in range(placed) if (row := self._placed(number))]
        self.pods = [self._pod(f"w{number:03d}") for number in range(pods)]

    def _often(self, share: float) -> bool:
        return self._chance.random() < share

    # Nodes.

    def _node(self, number: int) -> Entry:
        name = self.names[number]
        labels = {HOST: name, RACK: f"rack{number // 6}", "pool": self._chance.choice("abc"), "size": str(number)}
        if self._often(0.9):
            labels[ZONE] = f"z{number // 12}"
        room = {
            "cpu": self._chance.choice(("16", "32500m", "64")),
            "memory": self._chance.choice(("64Gi", "256G", "1Ti")),
            "pods": self._chance.choice(("3", "110", "110")),
            GPU: self._chance.choice(("8", "8", "8", "8", "4", "0")),
            "ephemeral-storage": self._chance.choice(("20Gi", "500Gi")),
            "rdma/hca": self._chance.choice(("0", "8", "8")), "hugepages-2Mi": self._chance.choice(("0", "2Gi")),
        }  # fmt: skip
        taints = []
        if self._often(0.25):
            effect = self._chance.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
            taints.append({"key": "team", "value": self._chance.choice("ab"), "effect": effect})
        if self._often(0.15):
            taints.append({"key": GPU, "value": "present", "effect": "NoSchedule"})
        spec: Entry = {"taints": taints, "unschedulable": self._often(0.05)}
        status = {"capacity": room, "allocatable": room, "conditions": [condition("True")]}
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    # Pods.

    def _base(self, name: str, scheduler: str) -> Entry:
        labels = {"app": self._chance.choice("abcd"), "tier": self._chance.choice("xy")}
        if self._often(0.1):
            del labels["tier"]
        limits = {GPU: self._chance.choice(("1", "1", "1", "2", "4", "8"))}
        for resource, amounts in (
            ("cpu", ("100m", "4", "15", "31")), ("memory", ("1Gi", "50Gi", "200Gi")), ("rdma/hca", ("1", "2", "4")),
            ("ephemeral-storage", ("1Gi", "15Gi", "100Gi")),
        ):  # fmt: skip
            if self._often(0.12):
                limits[resource] = self._chance.choice(amounts)
        container: Entry = {"name": "main", "image": "none", "resources": {"limits": limits}}
        if self._often(0.1):
            row: Entry = {"containerPort": 80, "hostPort": self._chance.choice((8080, 8081, 9000))}
            row |= {"protocol": self._chance.choice(("TCP", "UDP"))}
            if self._often(0.4):
                row["hostIP"] = self._chance.choice(("10.0.0.1", "10.0.0.2"))
            container["ports"] = [row]
        spec: Entry = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
        if self._often(0.1):
            init = {"cpu": self._chance.choice(("8", "20")), "memory": "2Gi"}
            spec["initContainers"] = [{"name": "init", "image": "none", "resources": {"requests": init}}]
        return {"metadata": {"name": name, "labels": labels}, "spec": spec}

    def _placed(self, number: int) -> Entry | None:
        """A pod on a node that has room for it, as any scheduler leaves them; None: there is none."""
        entry = self._base(f"p{number:03d}", "others")
        spec: Entry = entry["spec"]
        spec["containers"][0]["resources"]["limits"][GPU] = self._chance.choice(("1", "2"))
        needs = needs_of(spec)
        names = [name for name in self.names if self._has_room(name, needs)]
        if not names:
            return None
        spec["nodeName"] = self._chance.choice(names)
        self._there[spec["nodeName"]].append(needs)
        if self._often(0.08):
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [self._term()]}}
        return entry

    def _has_room(self, name: str, needs: Needs) -> bool:
        room, total = (
            room_of(self.nodes[self.names.index(name)]["status"]),
            total_needs([*self._there[name], needs]),
        )
        others = dict(room.others)
        fits = total.gpus <= room.gpus and total.cpus <= room.cpus and total.memory <= room.memory
        return fits and all(amount <= others.get(what, 0.0) for what, amount in total.others)

    def _pod(self, name: str) -> Entry:
        entry = self._base(name, "default-scheduler")
        spec: Entry = entry["spec"]
        zonal = self._often(0.15)
        if zonal:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": self._chance.choice((1, 2, 3)), "whenUnsatisfiable": "DoNotSchedule",
                    "topologyKey": key, "labelSelector": self._selector(),
                }
                for key in self._chance.sample((ZONE, RACK, HOST), self._chance.choice((1, 1, 2)))
            ]  # fmt: skip
        if not zonal and self._often(0.12):
            spec["nodeSelector"] = {"pool": self._chance.choice("abc")}
        affinity: Entry = {}
        if not zonal and self._often(0.15):
            affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [self._node_term(), self._node_term()]}}
        for kind, share in (("podAffinity", 0.12), ("podAntiAffinity", 0.15)):
            if self._often(share):
                affinity[kind] = {REQUIRED: [self._term() for _ in range(self._chance.choice((1, 1, 2)))]}
        if affinity:
            spec["affinity"] = affinity
        if self._often(0.4):
            spec["tolerations"] = [self._toleration() for _ in range(self._chance.choice((1, 2)))]
        if self._often(0.15):
            claim = {"claimName": self._chance.choice(self.claims)["metadata"]["name"]}
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
        return entry

    def _toleration(self) -> Entry:
        key = self._chance.choice(("team", GPU))
        row: Entry = {"key": key, "operator": "Exists"} if self._often(0.5) else {"key": key, "value": "a"}
        return row | ({"effect": "NoSchedule"} if self._often(0.5) else {})

    def _selector(self) -> Entry:
        how = self._chance.randrange(5)
        if how == 0:
            return {}
        if how == 1:
            return {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}
        if how == 2:
            return {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}
        if how == 3:
            row = {"key": "tier", "operator": self._chance.choice(("Exists", "DoesNotExist"))}
            return {"matchLabels": {"app": self._chance.choice("abcd")}, "matchExpressions": [row]}
        return {"matchLabels": {"app": self._chance.choice("abcd")}}

    def _term(self) -> Entry:
        term: Entry = {
            "labelSelector": self._selector(),
            "topologyKey": self._chance.choice((ZONE, RACK, HOST, HOST)),
        }
        if self._often(0.2):
            term["namespaces"] = self._chance.choice((["default"], ["elsewhere"], ["elsewhere", "default"]))
        return term

    def _node_term(self) -> Entry:
        how = self._chance.randrange(4)
        if how == 0:
            values = self._chance.sample(self.names, 5)
            return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": values[:1]}]}
        if how == 1:
            operator = self._chance.choice(("Gt", "Lt"))
            return {"matchExpressions": [{"key": "size", "operator": operator, "values": ["20"]}]}
        if how == 2:
            return {
                "matchExpressions": [{"key": ZONE, "operator": self._chance.choice(("Exists", "DoesNotExist"))}]
            }
        row = {"key": "pool", "operator": self._chance.choice(("In", "NotIn")), "values": ["a", "b"]}
        return {"matchExpressions": [row]}

    # Volumes.

    def _claims(self) -> list[Entry]:
        """Bound ones in zones and on nodes, and ones that wait for a node or for good."""
        rows = [self._claim(f"bound{number}", volumeName=f"v{number}") for number in range(6)]
        for row in rows:
            row["metadata"]["annotations"] = {BIND: "yes"}
        rows += [self._claim("free", storageClassName="late"), self._claim("zonal", storageClassName="late-z1")]
        rows.append(self._claim("chosen", storageClassName="late"))
        rows[-1]["metadata"]["annotations"] = {SELECTED: self.names[3]}
        return [*rows, self._claim("never", storageClassName="now")]

    def _claim(self, name: str, **spec: Any) -> Entry:
        asks = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
        return {"metadata": {"name": name}, "spec": asks}

    def volumes(self) -> Iterator[Entry]:
        """Of the claims that are bound: by zone labels, by node affinity, or anywhere."""
        places: tuple[tuple[Entry, Entry | None], ...] = (
            ({ZONE: "z0"}, None), ({ZONE: "z1__z2"}, None),
            ({"failure-domain.beta.kubernetes.io/zone": "z0"}, None),
            ({}, {"key": ZONE, "operator": "In", "values": ["z1"]}),
            ({}, {"key": HOST, "operator": "In", "values": self.names[5:9]}), ({}, None),
        )  # fmt: skip
        for number, (labels, row) in enumerate(places):
            spec: Entry = {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/data"},
                "claimRef": {"namespace": "default", "name": f"bound{number}"},
            }  # fmt: skip
            if row:
                spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [row]}]}}
            yield {"metadata": {"name": f"v{number}", "labels": labels}, "spec": spec}

    @staticmethod
    def classes() -> Iterator[Entry]:
        """Storage classes that wait for a node, one of them for a zone, and one that does not."""
        late: Entry = {"provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"}
        zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
        yield {"metadata": {"name": "late"}, **late}
        yield {"metadata": {"name": "late-z1"}, **late, "allowedTopologies": zones}
        yield {"metadata": {"name": "now"}, "provisioner": "example.com/disks", "volumeBindingMode": "Immediate"}

    def create(self, kube: KubeCluster) -> None:
        """All but the pods that wait."""
        for path, entries in (
            (NODES, self.nodes), (CLASSES, self.classes()), (VOLUMES, self.volumes()), (CLAIMS, self.claims),
            (PODS, self.placed),
        ):  # fmt: skip
            for entry in entries:
                kube.admin.post(path, entry)
        for entry in self.nodes:  # without the taint that a new node has
            kube.admin.patch(f"{NODES}/{entry['metadata']['name']}", {"spec": {"taints": entry["spec"]["taints"]}})
        for entry in self.claims:
            if "volumeName" in entry["spec"]:
                status = {"status": {"phase": "Bound"}}
                kube.admin.patch(f"{CLAIMS}/{entry['metadata']['name']}/status", status)


class FilterRecorder(ThreadingHTTPServer):
    """An extender of kube-scheduler: notes which nodes its filters left, and refuses all of them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.daemon_threads = True
        self.left: dict[str, set[str]] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: FilterRecorder

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = asked.get("NodeNames") or asked.get("nodenames") or []
        pod = asked.get("Pod") or asked["pod"]
        self.server.left[pod["metadata"]["name"]] = set(names)
        body = json.dumps({"NodeNames": [], "FailedNodes": dict.fromkeys(names, "noted")}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Nothing."""


@contextmanager
def kube_scheduler(kube: KubeCluster, folder: Path, port: int = 0, **more: Any) -> Iterator[None]:
    """Kubernetes' own scheduler with its usual filters, asked for all nodes; `port`: of an extender after them.

    `more`: of its configuration.
    """
    extender = {"urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "nodeCacheCapable": True}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        health = f"127.0.0.1:{probe.getsockname()[1]}"
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kube.config, "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False}, "percentageOfNodesToScore": 100,
        "extenders": [extender] if port else [],
        "healthzBindAddress": health, "metricsBindAddress": health, **more,
    }  # fmt: skip
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    command = [str(kube.folder / "bin" / "kube-scheduler"), f"--config={file}", "--secure-port=0"]
    with (folder / "scheduler.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def filtered(kube: KubeCluster, folder: Path, pods: int) -> dict[str, set[str]]:
    """By pod: the nodes that kube-scheduler's filters leave it, once it has looked at all of them."""
    recorder = FilterRecorder()
    try:
        with kube_scheduler(kube, folder, recorder.server_address[1]):
            until(lambda: len(_refused(kube)) == pods, 60.0)
    finally:
        recorder.shutdown()
        recorder.server_close()
    return {name: recorder.left.get(name, set()) for name in _refused(kube)}


def _refused(kube: KubeCluster) -> list[str]:
    """Pods that it could not place."""
    return [
        one["metadata"]["name"]
        for one in kube.pods()
        if any(
            row["type"] == "PodScheduled" and row["status"] == "False"
            for row in one["status"].get("conditions") or ()
        )
    ]
