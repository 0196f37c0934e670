"""A cluster of many sorts of nodes and pods, and a watcher that refuses what a kubelet would refuse."""

from __future__ import annotations

import random
import threading
from typing import Any, Final

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.node_record import fits, node_record
from dally.live.backends.kubernetes.pod_needs import Needs, needs_of, room_of, total_needs
from dally.live.backends.kubernetes.taints import Taint, tolerations_of, untolerated
from tests.live.kube_cluster import JOBS, NODES, PODS, KubeCluster, condition, job, pod, until
from tests.live.kube_filters import CLAIMS, CLASSES, HOST, REQUIRED, SELECTED, VOLUMES, ZONE
from tests.live.kube_recorder import GANG, SIZE, Recorder

GPU: Final = "nvidia.com/gpu"
H100: Final = {"key": "pool", "operator": "Equal", "value": "h100", "effect": "NoSchedule"}
POOLS: Final = (("a100", 10, 8, "96"), ("h100", 6, 8, "96"), ("small", 6, 4, "16"), ("cpu", 2, 0, "64"))
SETS = "/apis/apps/v1/namespaces/default/daemonsets"


def build(kube: KubeCluster) -> None:
    """24 nodes in four pools, one tainted and one without GPUs; a DaemonSet, and pods of other schedulers."""
    number = 0
    for pool, count, gpus, cpus in POOLS:
        for _ in range(count):
            name = f"m{number:02d}"
            labels = {HOST: name, "pool": pool, ZONE: f"z{number % 2}"}
            room = {"cpu": cpus, "memory": "512Gi", "pods": "20", GPU: str(gpus)}
            spec: Entry = {
                "taints": [{key: H100[key] for key in ("key", "value", "effect")}] if pool == "h100" else []
            }
            status = {"capacity": room, "allocatable": room, "conditions": [condition("True")]}
            kube.admin.post(NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})
            kube.admin.patch(f"{NODES}/{name}", {"spec": spec})
            number += 1
    late = {"provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"}
    kube.admin.post(CLASSES, {"metadata": {"name": "late"}, **late})
    labels = {"app": "agent"}
    agent = cpu_pod("agent", "1", labels)
    agent["spec"] = {**agent["spec"], "restartPolicy": "Always", "tolerations": [{"operator": "Exists"}]}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": agent["spec"]},
    }
    kube.admin.post(SETS, {"metadata": {"name": "agent"}, "spec": spec})
    until(lambda: sum(bool(one["spec"].get("nodeName")) for one in kube.pods()) == number, 60.0)
    for at in range(10):  # of Kubernetes' own scheduler; some end while gangs wait
        kube.admin.post(PODS, cpu_pod(f"web{at}", "40", {"app": "web"}, nodeSelector={"pool": "a100"}))
    for at in range(4):
        other = pod(f"other{at}", 4, 25.0, schedulerName="default-scheduler", nodeSelector={"pool": "a100"})
        kube.admin.post(PODS, other)
    until(lambda: sum(bool(one["spec"].get("nodeName")) for one in kube.pods()) == number + 14, 60.0)


def cpu_pod(name: str, cpus: str, labels: dict[str, str], **more: Any) -> Entry:
    """A pod without GPUs, of Kubernetes' own scheduler."""
    entry = pod(name, 0, None, labels=labels, schedulerName="default-scheduler", **more)
    entry["spec"]["containers"][0]["resources"] = {"limits": {"cpu": cpus}}
    return entry


class MixedLoad:
    """Gangs of many sorts, each of which the empty cluster could hold."""

    def __init__(self, kube: KubeCluster, seed: int) -> None:
        self._kube = kube
        self._chance = random.Random(seed)
        self.ids: list[str] = []

    def submit(self, number: int) -> None:
        """One gang."""
        name, kind = f"g{number}", number % 10
        pods, gpus = self._chance.choice(((1, 1), (1, 4), (2, 8), (2, 2), (4, 4), (3, 8), (6, 1)))
        seconds = self._chance.uniform(0.3, 2.0)
        spec: Entry = {}
        limits: dict[str, str] = {}
        labels = {"app": name}
        if kind == 1:
            limits = {"cpu": "50"}  # beside the web pods there is no room for that
        elif kind == 2:
            spec = {"tolerations": [H100], "nodeSelector": {"pool": "h100"}}
        elif kind == 3:
            gpus, spec = min(gpus, 4), {"nodeSelector": {"pool": "small"}}
            limits = {"cpu": "6"}
        elif kind == 4:
            limits = {"port": "8080"}
        elif kind == 5:
            spec = {"affinity": {"podAntiAffinity": {REQUIRED: [_term(HOST, app=name)]}}}
        elif kind == 6:
            spec = {"affinity": {"podAffinity": {REQUIRED: [_term(ZONE, app=name)]}}}
        elif kind == 7:
            rows = [{"key": "pool", "operator": "NotIn", "values": ["small"]}]
            terms = {"nodeSelectorTerms": [{"matchExpressions": rows}]}
            spec = {"affinity": {"nodeAffinity": {REQUIRED: terms}}, "tolerations": [H100]}
        if kind == 8:
            self._bare_with_volumes(name, min(pods, 3), gpus, seconds)
        else:
            self._job(name, pods, gpus, seconds, spec, limits, labels)

    def _job(
        self, name: str, pods: int, gpus: int, seconds: float, spec: Entry, limits: dict[str, str], labels: Entry
    ) -> None:
        body = job(name, pods, gpus, seconds, expected="100s")
        template = body["spec"]["template"]
        body["spec"]["backoffLimit"] = 10_000
        template["metadata"]["labels"] |= labels
        template["spec"] |= spec
        container = template["spec"]["containers"][0]
        if limits.pop("port", ""):
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        container["resources"]["limits"] |= limits
        self._kube.admin.post(JOBS, body)
        self.ids.append(f"default.job.{name}")

    def _bare_with_volumes(self, name: str, pods: int, gpus: int, seconds: float) -> None:
        """A claim each, which is provisioned where the pod goes."""
        labels = {"dally.io/gang": name, "dally.io/gang-size": str(pods), GANG: name, SIZE: str(pods)}
        for rank in range(pods):
            asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            claim = {"metadata": {"name": f"{name}-{rank}"}, "spec": {**asks, "storageClassName": "late"}}
            self._kube.admin.post(CLAIMS, claim)
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-{rank}"}}]
            self._kube.admin.post(PODS, pod(f"{name}-{rank}", gpus, seconds, labels=labels, volumes=volumes))
        self.ids.append(f"default.gang.{name}")


def _term(key: str, **labels: str) -> Entry:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key}


class Provisioner(threading.Thread):
    """Makes a volume on the selected node of each claim, as a driver of local disks does."""

    def __init__(self, kube: KubeCluster) -> None:
        super().__init__(daemon=True)
        self.nodes: dict[str, str] = {}  # by claim
        self._kube = kube
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.3):
            try:
                for claim in self._kube.admin.get(CLAIMS)["items"]:
                    about = claim["metadata"]
                    node = (about.get("annotations") or {}).get(SELECTED)
                    if node and about["name"] not in self.nodes:
                        self._make(about["name"], about["uid"], node)
            except BackendError:
                continue

    def _make(self, claim: str, uid: str, node: str) -> None:
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}]
        spec = {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
            "storageClassName": "late", "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "claimRef": {"namespace": "default", "name": claim, "uid": uid},
        }  # fmt: skip
        self._kube.admin.post(VOLUMES, {"metadata": {"name": f"v-{claim}"}, "spec": spec})
        self.nodes[claim] = node

    def stop(self) -> None:
        """No more."""
        self._over.set()
        self.join(10.0)


class Kubelets(Recorder):
    """Looks at every binding as the kubelet of its node would, and at its taints as the scheduler should."""

    def __init__(self, kube: KubeCluster) -> None:
        self._nodes = {entry["metadata"]["name"]: entry for entry in kube.admin.get(NODES)["items"]}
        super().__init__(kube)

    def _check_node(self, node: str) -> None:
        here = [one for one in self._pods.values() if one["spec"].get("nodeName") == node and _lives(one)]
        room, taken = room_of(self._nodes[node]["status"]), total_needs(needs_of(one["spec"]) for one in here)
        for what, has in _amounts(room).items():
            asks = _amounts(taken).get(what, 0.0)
            if asks > has:
                self.problems.append(f"{asks:g} {what} given on {node}, which has {has:g}")
        ports = [
            (port["hostPort"], port.get("protocol"))
            for one in here
            for container in one["spec"]["containers"]
            for port in container.get("ports") or ()
            if port.get("hostPort")
        ]
        if len(ports) > len(set(ports)):
            self.problems.append(f"a host port is given twice on {node}: {ports}")
        for one in here:
            self._check_pod(one, node)

    def _check_pod(self, one: Entry, node: str) -> None:
        entry = self._nodes[node]
        spec = one["spec"]
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
        selector = {"labels": spec.get("nodeSelector") or {}, "terms": affinity.get("nodeSelectorTerms") or []}
        if not fits(selector, node_record(entry, ())):
            self.problems.append(f"{one['metadata']['name']} does not belong on {node}")
        taints = [
            Taint(row["key"], row.get("value", ""), row["effect"]) for row in entry["spec"].get("taints") or ()
        ]
        if untolerated(taints, tolerations_of(spec)) is not None:
            self.problems.append(f"{one['metadata']['name']} does not tolerate {node}")


def _amounts(needs: Needs) -> dict[str, float]:
    return {"GPUs": needs.gpus, "CPUs": needs.cpus, "memory": needs.memory, **dict(needs.others)}


def _lives(entry: Entry) -> bool:
    return (entry.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
