"""A private Kubernetes API of 16 nodes of 8 fake GPUs, from the bundle under ../shared, with a fake kubelet."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import KubeOptions, KubernetesBackend
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT.parent / "shared" / "kubernetes"
PODS, NODES, JOBS = "/api/v1/namespaces/default/pods", "/api/v1/nodes", "/apis/batch/v1/namespaces/default/jobs"
QUICK = "--kube-api-qps=1000 --kube-api-burst=2000 --concurrent-gc-syncs=20 --controllers=*,-nodelifecycle"
AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, users: [dally]}
- {level: None}
"""


def until(done: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What it returns once that is something."""
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)
    return found


class KubeCluster:
    """A running cluster; `admin` may do everything, the user dally what deploy/kubernetes/rbac.yaml says."""

    def __init__(self, config: str, audit: Path, nodes: int) -> None:
        self.config = config
        self.audit = audit
        self.folder = Path(config).parent
        self.admin = KubeApi(config, "admin")
        self.grant()
        self.nodes = [f"n{number + 1:02d}" for number in range(nodes)]
        for number in range(nodes):
            self.add_node(number)
        self.kubelet = kubelet_of(config)
        self._child: subprocess.Popen[bytes] | None = None  # a server that was started again

    def backend(self, **options: Any) -> KubernetesBackend:
        """A backend as the user dally."""
        return KubernetesBackend(KubeOptions(kubeconfig=self.config, context="dally", **options))

    def grant(self) -> None:
        """The rights that we ship, and no others."""
        self.admin.post("/api/v1/namespaces", {"metadata": {"name": "dally"}})
        roles = "/apis/rbac.authorization.k8s.io/v1"
        self.admin.delete(f"{roles}/clusterrolebindings/dally")
        user = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "dally"}]
        for entry in yaml.safe_load_all((ROOT / "deploy/kubernetes/rbac.yaml").read_text()):
            kind, space = entry["kind"], entry["metadata"].get("namespace")
            folder = f"{roles}/namespaces/{space}" if space else roles
            if "subjects" in entry:
                entry["subjects"] = user
            self.admin.post(f"{folder}/{kind.lower()}s", entry)
            name = entry["metadata"]["name"]
            if kind == "ClusterRole" and name != "dally-scheduler":
                ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
                body = {"metadata": {"name": name}, "roleRef": ref, "subjects": user}
                self.admin.post(f"{roles}/clusterrolebindings", body)

    def add_node(self, number: int) -> None:
        """A node of 8 GPUs; four in a rack, ready, with the taint that GPU nodes have."""
        name = f"n{number + 1:02d}"
        labels = {
            "kubernetes.io/hostname": name,
            "network.topology.nvidia.com/spine": "s0",
            "network.topology.nvidia.com/leaf": f"rack{number // 4}",
        }
        room = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
        taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
        status = {"capacity": room, "allocatable": room, "conditions": [condition("True")]}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status}
        self.admin.post(NODES, body)
        self.admin.patch(f"{NODES}/{name}", {"spec": {"taints": taints}})

    def pods(self) -> list[Entry]:
        """All pods of the default namespace."""
        found: list[Entry] = self.admin.get(PODS)["items"]
        return found

    def clear(self) -> None:
        """Nothing left."""
        self.admin.call("DELETE", JOBS, {"propagationPolicy": "Background"})
        until(lambda: not self.admin.get(JOBS)["items"])
        until(self._no_pods)

    def _no_pods(self) -> bool:
        self.admin.call("DELETE", PODS, {"gracePeriodSeconds": 0})
        return not self.pods()

    def kill_server(self) -> None:
        """SIGKILL, until its port is closed."""
        pid = int((self.folder / "apiserver.pid").read_text())
        self._command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        os.kill(pid, signal.SIGKILL)
        port = int(self.admin.host.rsplit(":", 1)[1])
        until(lambda: _closed(port))
        self.reap()

    def reap(self) -> None:
        """Wait for the server that was started here, which was killed."""
        if self._child is not None:
            self._child.wait()

    def start_server(self) -> None:
        """The same one again; returns at once."""
        log = (self.folder / "apiserver.log").open("a")
        self._child = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        log.close()
        (self.folder / "apiserver.pid").write_text(str(self._child.pid))

    def answers(self) -> bool:
        """Whether the server does."""
        try:
            self.admin.get(NODES, limit=1)
        except BackendError:
            return False
        return True

    def compact(self) -> None:
        """Have etcd forget what was before: a watch from an older version is answered by 410."""
        import json
        import urllib.request

        etcd = next(
            line.split()[1]
            for line in (self.folder / "etcd.yaml").read_text().splitlines()
            if "listen-client" in line
        )
        body = {"revision": int(self.admin.get(PODS)["metadata"]["resourceVersion"]), "physical": True}
        request = urllib.request.Request(
            f"{etcd}/v3/kv/compaction", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as answer:
            assert answer.status == 200


def _closed(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def condition(ready: str) -> Entry:
    """Of a node."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"type": "Ready", "status": ready, "reason": "test", "lastHeartbeatTime": now, "lastTransitionTime": now}


def kubelet_of(config: str) -> Any:
    """The bundle's kubelet, which also knows how long `sleep` takes."""
    sys.path.insert(0, str(BUNDLE))
    try:
        fakekubelet, kubeapi = import_module("fakekubelet"), import_module("kubeapi")
    finally:
        sys.path.remove(str(BUNDLE))

    plain: Any = fakekubelet.Kubelet

    class Kubelet(plain):  # type: ignore[misc]
        def do(self, what: str, pod: Entry) -> Any:
            command = pod["spec"]["containers"][0].get("command") or []
            if command[:1] == ["sleep"]:
                pod["metadata"].setdefault("annotations", {}).setdefault("kubebox/seconds", command[1])
            return super().do(what, pod)

    return Kubelet(kubeapi.Api(config, "kubelet")).start()


def pod(name: str, gpus: int = 8, seconds: float | None = None, **more: Any) -> Entry:
    """A pod of ours; `labels`, `notes` and fields of its spec."""
    labels, notes = more.pop("labels", {}), dict(more.pop("notes", {}))
    if seconds is not None:
        notes["kubebox/seconds"] = f"{seconds:g}"
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    spec = {
        "schedulerName": "dally", "restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}], **more,
    }  # fmt: skip
    return {"metadata": {"name": name, "labels": labels, "annotations": notes}, "spec": spec}


def job(name: str, pods: int, gpus: int, seconds: float | None, **notes: str) -> Entry:
    """A Job whose pods start together."""
    stated = {f"dally.io/{key}": value for key, value in notes.items()}
    template = pod(name, gpus, seconds, notes=stated, labels={"test/gang": name, "test/size": str(pods)})
    del template["metadata"]["name"]
    return {"metadata": {"name": name}, "spec": {"parallelism": pods, "completions": pods, "template": template}}


@contextmanager
def kube_cluster(folder: Path, nodes: int = 16, controllers: bool = True) -> Iterator[KubeCluster]:
    """For the length of a block; without controllers nobody makes the pods of Jobs, or writes an audit log."""
    audit, policy = folder / "audit.log", folder / "audit.yaml"
    policy.write_text(AUDIT)
    environment = {
        **os.environ, "WITH": "controller-manager" if controllers else "", "OWNER": str(os.getpid()),
        "KCM_ARGS": QUICK,
        "API_ARGS": f"--audit-policy-file={policy} --audit-log-path={audit}" if controllers else "",
    }  # fmt: skip
    done = subprocess.run(
        [BUNDLE / "up.sh", folder / "kube"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    cluster = KubeCluster(done.stdout.strip(), audit, nodes)
    try:
        yield cluster
    finally:
        cluster.kubelet.stop()
        subprocess.run([BUNDLE / "down.sh", folder / "kube"], check=True)
        cluster.reap()
