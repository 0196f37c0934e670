"""Answers of a server, and objects of users, that must stop nobody else; the server is in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedJob
from dally.live.backends.kubernetes import KubeOptions, KubernetesBackend, gang_ledger, leader, owners
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.leader import Leader
from tests.live.kube_cluster import pod, until

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
    made = KubernetesBackend(KubeOptions(str(tmp_path / "config"), tell=False))
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


def test_a_helper_that_cannot_be_bound(server: Server, backend: KubernetesBackend) -> None:
    """A pod without GPUs costs its gang nothing, and nobody's turn."""
    server.objects[f"{JOBS}/g"] = job_of("g", 2)
    server.pods += [of_job("g", 0, node="n1"), of_job("g", 1, node="n2"), of_job("g", 2, gpus=0)]
    server.objects[f"{PODS}/g-2/binding"] = RefusedError("bind", 422, {"message": "no"})
    assert told(backend)["g"].state == base.RUNNING
    assert backend.complete() == ["job a.job.g runs, but pod g-2: bind: 422: no"]
    assert list(server.orders("POST")) == [f"{PODS}/g-2/binding"]
    assert told(backend)["g"].state == base.RUNNING


@pytest.mark.parametrize(
    "reference",
    [
        {"name": "../../../../../../api/v1/namespaces/b/secrets/s"},
        {"name": "j?dryRun=All"},
        {"apiVersion": "batch/../../api/v1"},
        {"apiVersion": "batch/v1?x="},
    ],
)
def test_references_to_what_cannot_be(
    server: Server, backend: KubernetesBackend, reference: dict[str, Any]
) -> None:
    """Users write owner references: none leads to another object."""
    server.pods.append(of_job("j", **reference))
    (job,) = backend.snapshot().jobs
    backend.cancel_job(job.job_id)
    assert {path for method, path, _ in server.asked if "j" in path.split("/")[-1]} == {f"{PODS}/j-0"}
    assert list(server.orders("DELETE")) == [f"{PODS}/j-0"]
    assert not [path for _, path, _ in server.asked if ".." in path or "?" in path]


def test_only_this_very_controller_is_deleted(server: Server, backend: KubernetesBackend) -> None:
    server.objects[f"{JOBS}/j"] = job_of("j", 1)
    server.pods.append(of_job("j"))
    assert told(backend)["j"].state == base.QUEUED
    backend.cancel_job("a.job.j")
    body = {"propagationPolicy": "Background", "preconditions": {"uid": "uid-j"}}
    assert server.orders("DELETE") == {f"{JOBS}/j": body}


@pytest.mark.parametrize("ill", [RefusedError("get", 500, {}), {"metadata": {}, "spec": {"parallelism": "x"}}])
def test_one_controller_that_cannot_be_read(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch, ill: Any
) -> None:
    """It is held and asked again later; what was known of it stands; others go on."""
    monkeypatch.setattr(gang_ledger, "ASK_EVERY_S", 0.0)
    clock_s = [0.0]
    monkeypatch.setattr(owners, "time", SimpleNamespace(monotonic=lambda: clock_s[0]))
    server.objects |= {f"{JOBS}/well": job_of("well", 1), f"{JOBS}/ill": ill}
    server.pods += [of_job("ill"), of_job("well")]
    found = told(backend)
    assert (found["well"].state, found["ill"].state) == (base.QUEUED, base.HELD)
    assert "its Job cannot be read" in found["ill"].reason
    server.objects[f"{JOBS}/ill"] = job_of("ill", 1)
    assert told(backend)["ill"].state == base.HELD  # not so soon
    assert len([path for _, path, _ in server.asked if path == f"{JOBS}/ill"]) == 1
    clock_s[0] += owners.AGAIN_S
    assert told(backend)["ill"].state == base.QUEUED
    server.objects[f"{JOBS}/ill"] = ill
    backend.ledger.put(of_job("ill", 1))  # one more than it has: its Job is asked
    told(backend)
    assert told(backend)["ill"].state == base.QUEUED
    assert len([path for _, path, _ in server.asked if path == f"{JOBS}/ill"]) == 3


def test_no_answer_at_all_costs_the_turn(server: Server, backend: KubernetesBackend) -> None:
    server.objects[f"{JOBS}/j"] = BackendError("connection refused")
    server.pods.append(of_job("j"))
    with pytest.raises(BackendError, match="connection refused"):
        backend.snapshot()
    server.objects[f"{JOBS}/j"] = job_of("j", 1)
    assert told(backend)["j"].state == base.QUEUED


def test_who_leads_no_more_looks_no_more(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn writes to the store, which another daemon may share: without the lease there is none."""
    monkeypatch.setattr(leader, "RENEW_S", 0.01)
    monkeypatch.setattr(leader, "SURE_S", 0.1)
    name = f"{LEASES}/dally-scheduler"
    claim = backend.claim()
    assert told(backend) == {}
    theirs = {"holderIdentity": "other", "renewTime": "now", "leaseDurationSeconds": 60}
    server.objects[name] = {"metadata": {"name": "dally-scheduler"}, "spec": theirs}

    def refused() -> bool:
        try:
            backend.snapshot()
        except BackendError as error:
            return "another daemon leads" in str(error)
        return False

    until(refused, 5.0)
    with pytest.raises(BackendError, match="another daemon leads"):
        backend.topology()
    claim.release()


def test_the_lease_is_kept_whatever_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lease that somebody made by hand, and answers of no sense: the thread goes on."""
    monkeypatch.setattr(leader, "RENEW_S", 0.01)
    answers: list[Any] = [{"metadata": {}}, {"metadata": {}, "spec": None}, ["junk"], {"spec": 3}]
    written: list[Entry] = []
    api = SimpleNamespace(
        get=lambda _: answers.pop(0) if answers else {"metadata": {}},
        put=lambda _, body: written.append(body),
        close=lambda: None,
    )
    made = Leader(cast(KubeApi, api), "dally", "lease")
    made.acquire()
    until(lambda: not answers and len(written) > 4, 5.0)
    made.check()
    made.release()
    assert {body["spec"]["holderIdentity"] for body in written} == {made.me}


@pytest.mark.parametrize("data", [b"<html>", b"[]", b"null"])
def test_an_answer_that_is_no_object(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.undo()
    answer = SimpleNamespace(status=200, data=data)
    monkeypatch.setattr(backend.api, "_http", SimpleNamespace(request=lambda *_, **__: answer, clear=lambda: None))
    with pytest.raises(BackendError, match="no JSON"):
        backend.api.get("/version")
