"""A Kubernetes API server in memory: answers and objects of users by path."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dally.live.backends.base import ObservedJob
from dally.live.backends.kubernetes import KubeOptions, KubernetesBackend
from dally.live.backends.kubernetes.kube_api import Entry, RefusedError
from tests.live.kube_cluster import pod

JOBS = "/apis/batch/v1/namespaces/a/jobs"
PODS = "/api/v1/namespaces/a/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/dally/leases"


class Server:
    """Two nodes of 8 GPUs, and whatever a test puts there: objects by path, or exceptions."""

    def __init__(self) -> None:
        room = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1Ti"}
        self.nodes: list[Entry] = [
            {"metadata": {"name": f"n{at}"}, "status": {"allocatable": room}} for at in (1, 2)
        ]
        self.pods: list[Entry] = []
        self.objects: dict[str, Any] = {"/version": {}}
        self.asked: list[tuple[str, str, Any]] = []

    def call(self, method: str, path: str, body: Any = None, *_: Any, **__: Any) -> Any:
        self.asked.append((method, path, body))
        for folder, items in (("/api/v1/nodes", self.nodes), ("/api/v1/pods", self.pods)):
            if path == folder:
                return {"metadata": {"resourceVersion": "1"}, "items": items}
        found = self.objects.get(path, RefusedError(path, 404, {}) if method == "GET" else {})
        if isinstance(found, Exception):
            raise found
        return found

    def watch(self, path: str, version: str, seconds: int, stop: threading.Event) -> Iterator[Entry]:
        del path, version, seconds
        stop.wait(5.0)
        yield from ()

    def orders(self, method: str) -> dict[str, Any]:
        """Bodies by path."""
        return {path: body for how, path, body in self.asked if how == method}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def backend(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesBackend]:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    made = KubernetesBackend(KubeOptions(str(tmp_path / "config"), events=False))
    monkeypatch.setattr(made.api, "call", server.call)
    monkeypatch.setattr(made.api, "watch", server.watch)
    yield made
    made.close()


def of_job(job: str, number: int = 0, gpus: int = 8, node: str = "", **reference: str) -> Entry:
    """A pod of a Job, or of what its reference says."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    entry = pod(f"{job}-{number}", gpus)
    about = {"namespace": "a", "uid": f"{job}-{number}", "ownerReferences": [owner | reference]}
    entry["metadata"] |= about
    entry["spec"] |= {"nodeName": node} if node else {}
    return entry


def job_of(name: str, pods: int) -> Entry:
    template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}
    return {"metadata": {"uid": f"uid-{name}"}, "spec": {"parallelism": pods, "template": template}}


def told(backend: KubernetesBackend) -> dict[str, ObservedJob]:
    return {job.spec.name: job for job in backend.snapshot().jobs}
