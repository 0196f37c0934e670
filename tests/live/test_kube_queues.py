"""Quotas as Kueue's objects state them on a real API server, changed while a daemon runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dally.errors import InputError
from dally.live.assembly import Service
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import KubeOptions, KubernetesBackend, kueue_watch
from dally.live.config import Config, Setup
from tests.live.kube_cluster import JOBS, PODS, KubeCluster, pod, until
from tests.live.test_kube_users import Site, define, exists

KINDS = {"ClusterQueue": "", "Cohort": "", "ResourceFlavor": "", "LocalQueue": "default"}


@pytest.fixture
def folders(kube: KubeCluster) -> Iterator[dict[str, str]]:
    """Where the objects of each kind are; without any before and after."""
    result = {kind: define(kube, "kueue.x-k8s.io", "v1beta1", kind, space) for kind, space in KINDS.items()}
    for folder in result.values():
        until(lambda folder=folder: exists(kube, folder))  # type: ignore[misc]
    yield result
    for folder in result.values():
        for entry in kube.admin.get(folder)["items"]:
            kube.admin.delete(f"{folder}/{entry['metadata']['name']}")


def cluster_queue(gpus: int, **more: Any) -> dict[str, Any]:
    flavor = {"name": "any", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": gpus}]}
    return {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}], **more}


def make(kube: KubeCluster, folder: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    about = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}}
    kube.admin.post(folder, {**about, "spec": spec})


def gang(kube: KubeCluster, name: str, pods: int, queue: str, seconds: float | None = None) -> None:
    labels = {"dally.io/gang": name, "dally.io/gang-size": str(pods), "kueue.x-k8s.io/queue-name": queue}
    body = {"parallelism": pods, "completions": pods, "backoffLimit": 100}
    template = pod(name, 8, seconds, labels=labels)
    del template["metadata"]["name"]
    kube.admin.post(JOBS, {"metadata": {"name": name}, "spec": {**body, "template": template}})


def service(kube: KubeCluster, folder: Path, queues: str = "", preempt: str = "") -> Service:
    options = {"kubeconfig": kube.config, "context": "dally", "kueue": "true"}
    setup = Setup("fifo-backfill", queues=queues, preempt={"usual": preempt} if preempt else {})
    return Service(Config("kubernetes", folder=folder, kubernetes=options, setup=setup))


class QueueSite(Site):
    """A daemon that takes its quotas from Kueue's objects."""

    def __init__(self, kube: KubeCluster, folder: Path, preempt: str = "") -> None:
        self.kube = kube
        self.service = service(kube, folder, preempt=preempt)
        self.daemon = self.service.daemon

    def teams(self) -> list[str]:
        return [team.path for team in self.daemon.status.teams]


def test_quotas_follow_the_cluster(kube: KubeCluster, folders: dict[str, str], tmp_path: Path) -> None:
    """A raised quota lets a gang start; one of no sense changes nothing and is told; a queue may come and go."""
    make(kube, folders["ClusterQueue"], "ClusterQueue", "vision", cluster_queue(8))
    make(kube, folders["LocalQueue"], "LocalQueue", "team-a", {"clusterQueue": "vision"})
    site = QueueSite(kube, tmp_path)
    labels = {"dally.io/gang": "g", "dally.io/gang-size": "2", "kueue.x-k8s.io/queue-name": "team-a"}
    for number in range(2):
        kube.admin.post(PODS, pod(f"g-{number}", 8, labels=labels))
    site.go_on(lambda: "default.gang.g" in site.daemon.status.by_id)
    for _ in range(5):
        site.cycle()
    line = site.daemon.status.by_id["default.gang.g"]
    assert (line.state, site.teams()) == ("waiting", ["vision"])
    assert not any(one["spec"].get("nodeName") for one in kube.pods())
    kube.admin.patch(f"{folders['ClusterQueue']}/vision", {"spec": cluster_queue(16)})
    site.go_on(lambda: site.runs("default.gang.g"))
    kube.admin.patch(f"{folders['ClusterQueue']}/vision", {"spec": cluster_queue(-1)})
    site.go_on(lambda: any("quotas stay as they were" in line for line in site.daemon.status.problems))
    assert (site.runs("default.gang.g"), site.teams()) == (True, ["vision"])
    kube.admin.patch(f"{folders['ClusterQueue']}/vision", {"spec": cluster_queue(16, cohort="all")})
    make(kube, folders["ClusterQueue"], "ClusterQueue", "nlp", cluster_queue(8, cohort="all"))
    site.go_on(lambda: set(site.teams()) == {"all", "all/vision", "all/nlp"})
    kube.admin.delete(f"{folders['ClusterQueue']}/nlp")
    site.go_on(lambda: set(site.teams()) == {"all", "all/vision"})
    assert (site.runs("default.gang.g"), site.daemon.status.problems) == (True, ())
    site.service.close()


def test_a_queue_is_used_by_its_own_namespaces(kube: KubeCluster, folders: dict[str, str], tmp_path: Path) -> None:
    """As in Kueue, a pod may name the LocalQueues of its namespace, and neither others' nor a ClusterQueue."""
    kube.admin.post("/api/v1/namespaces", {"metadata": {"name": "eve"}})
    make(kube, folders["ClusterQueue"], "ClusterQueue", "vision", cluster_queue(16))
    make(kube, folders["LocalQueue"], "LocalQueue", "team-a", {"clusterQueue": "vision"})
    theirs = folders["LocalQueue"].replace("/default/", "/eve/")
    make(kube, theirs, "LocalQueue", "nowhere", {"clusterQueue": "none"})
    bare = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "bare"}}
    kube.admin.post(theirs, bare)  # without a spec, as Kueue's own definition permits
    site = QueueSite(kube, tmp_path)
    asked = ("team-a", "vision", "nowhere", "bare")
    try:
        for name in asked:
            labels = {"kueue.x-k8s.io/queue-name": name}
            kube.admin.post("/api/v1/namespaces/eve/pods", pod(name, 8, labels=labels))
        kube.admin.post(PODS, pod("own", 8, labels={"kueue.x-k8s.io/queue-name": "team-a"}))
        site.go_on(lambda: site.runs("default.pod.own"))
        observed = {job.job_id: job for job in site.service.backend.snapshot().jobs}
        for name in asked:
            job = observed[f"eve.pod.{name}"]
            assert (job.state, job.reason) == ("held", f"namespace eve has no LocalQueue {name}")
        assert observed["default.pod.own"].spec.queue == "vision"
    finally:
        site.service.close()
        for name in ("nowhere", "bare"):
            kube.admin.delete(f"{theirs}/{name}")
        kube.admin.delete("/api/v1/namespaces/eve")


def test_lent_gpus_are_reclaimed_at_once(kube: KubeCluster, folders: dict[str, str], tmp_path: Path) -> None:
    """As Kueue does, unless the ClusterQueue's annotation has borrowers run for a while first."""
    for name in ("vision", "nlp"):
        make(kube, folders["ClusterQueue"], "ClusterQueue", name, cluster_queue(64, cohort="all"))
        make(kube, folders["LocalQueue"], "LocalQueue", name, {"clusterQueue": name})
    site = QueueSite(kube, tmp_path, preempt="yes")
    try:
        for number in range(2):
            gang(kube, f"lent{number}", 8, "nlp")
        site.go_on(lambda: all(site.runs(f"default.gang.lent{number}") for number in range(2)))
        gang(kube, "due", 8, "vision")
        try:
            site.go_on(lambda: site.runs("default.gang.due"))
        except AssertionError:
            raise AssertionError(
                str(site.daemon.status.by_id["default.gang.due"])
                + (tmp_path / "kueue.json").read_text()
                + str(site.daemon.status.teams)
            ) from None
        notes = {"metadata": {"annotations": {"dally.io/min-runtime": "90m"}}}
        kube.admin.patch(f"{folders['ClusterQueue']}/vision", notes)
        site.go_on(lambda: '"90m"' in (tmp_path / "kueue.json").read_text())
    finally:
        site.service.close()


def test_kueue_is_away(kube: KubeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first daemon waits for it; with quotas of an earlier one it goes on with those, and says so."""
    monkeypatch.setattr(kueue_watch, "API", "/apis/nowhere.example.com")
    options = KubeOptions(kubeconfig=kube.config, context="dally", kueue=True)
    backend = KubernetesBackend(options, tmp_path)
    with pytest.raises(BackendError, match=r"nowhere\.example\.com"):
        backend.topology()
    backend.close()
    (tmp_path / "kueue.json").write_text('{"kind": "ClusterQueueList", "items": []}')
    backend = KubernetesBackend(options, tmp_path)
    assert backend.topology().machine_count() == 16
    assert any("quotas may be old" in line for line in backend.snapshot().problems)
    backend.close()


def test_queues_of_a_file_and_of_the_cluster(kube: KubeCluster, folders: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("[queues.a]\ndefault = true\n")
    with pytest.raises(InputError, match="give one of both"):
        service(kube, tmp_path / "state", str(tmp_path / "own.toml"))
