"""What users and operators see of a real API server: events, conditions, ranks, hostfiles, rights."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from sqlalchemy import select

from dally.job_spec import JobSpec
from dally.live.assembly import Service
from dally.live.backends.base import BackendError, Submission
from dally.live.backends.kubernetes import KubernetesBackend, owners
from dally.live.config import Config, Setup
from dally.live.store.schema import EVENTS
from tests.live.kube_cluster import JOBS, NODES, PODS, ROOT, KubeCluster, job, pod, until

MAPS = "/api/v1/namespaces/default/configmaps"


class Site:
    """A daemon of a cluster, taken turn by turn."""

    def __init__(
        self,
        kube: KubeCluster,
        folder: Path,
        dry_run: bool = False,
        policy: str = "fifo-backfill",
        setup: Setup | None = None,
        **more: str,
    ) -> None:
        options = {"kubeconfig": kube.config, "context": "dally", "image": "none", **more}
        setup = setup or Setup(policy)
        config = Config("kubernetes", folder=folder, kubernetes=options, setup=setup, dry_run=dry_run)
        self.kube = kube
        self.service = Service(config)
        self.daemon = self.service.daemon

    def go_on(self, done: Callable[[], Any], seconds: float = 60.0) -> None:
        until_s, problem = time.monotonic() + seconds, ""
        while not done():
            assert time.monotonic() < until_s, (self.daemon.status.problems, problem)
            problem = self.cycle()
            self.service.backend.wait(0.1)

    def cycle(self) -> str:
        """One turn; on a busy machine the lease may not be renewed in time, which costs it, as it does a daemon."""
        try:
            self.daemon.run_cycle()
        except BackendError as error:
            return str(error)
        return ""

    def runs(self, job_id: str) -> bool:
        line = self.daemon.status.by_id.get(job_id)
        return line is not None and line.state == "running"

    def pods(self, gang: str) -> list[dict[str, Any]]:
        return [one for one in self.kube.pods() if one["metadata"]["labels"].get("test/gang") == gang]


@pytest.fixture
def site(kube: KubeCluster, tmp_path: Path) -> Iterator[Site]:
    made = Site(kube, tmp_path)
    yield made
    made.service.close()


def described(kube: KubeCluster, pod: str, word: str) -> str:
    """What `kubectl describe pod` says, if that word is in it."""
    words = [str(kube.folder / "bin" / "kubectl"), "--kubeconfig", kube.config, "describe", "pod", pod]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return text if word in text else ""


def test_describe_says_why_and_where(site: Site) -> None:
    kube = site.kube
    kube.admin.post(JOBS, job("big", 14, 8, None))
    site.go_on(lambda: site.runs("default.job.big"))
    kube.admin.post(JOBS, job("late", 4, 8, None))
    site.go_on(lambda: site.daemon.status.by_id.get("default.job.late"))
    until(lambda: len(site.pods("late")) == 4)
    site.go_on(lambda: all(condition_of(one)[0] == "False" for one in site.pods("late")))
    name = site.pods("late")[0]["metadata"]["name"]
    site.go_on(
        lambda: described(kube, name, "it needs 32 GPUs and 16 are free")
    )  # at first its pods were not all there
    text = described(kube, name, "FailedScheduling")
    assert "dally.io/Placed" in text
    kube.admin.call("DELETE", f"{JOBS}/big", {"propagationPolicy": "Background"})
    site.go_on(lambda: site.runs("default.job.late"))
    until(lambda: condition_of(kube.admin.get(f"{PODS}/{name}"))[:2] == ("True", "Leaf"))
    text = until(lambda: described(kube, name, "Successfully assigned"))
    assert "gang on one leaf" in text


def condition_of(pod: dict[str, Any]) -> tuple[str, str, str]:
    for found in pod["status"].get("conditions") or ():
        if found["type"] == "dally.io/Placed":
            return found["status"], found["reason"], found["message"]
    return "", "", ""


def test_ranks_follow_the_fabric(site: Site) -> None:
    """Rank by rank along the machines, in the annotation and in the hostfile that the pods mount."""
    kube = site.kube
    body = job("ranked", 12, 4, None)
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "hosts", "configMap": {"name": "dally-hosts-ranked"}}]
    kube.admin.post(JOBS, body)
    site.go_on(lambda: site.runs("default.job.ranked"))
    pods = sorted(site.pods("ranked"), key=lambda one: int(one["metadata"]["annotations"]["dally.io/rank"]))
    assert [one["metadata"]["annotations"]["dally.io/rank"] for one in pods] == [str(rank) for rank in range(12)]
    nodes = [one["spec"]["nodeName"] for one in pods]
    assert nodes == sorted(nodes)
    lines = kube.admin.get(f"{MAPS}/dally-hosts-ranked")["data"]["hostfile"].splitlines()
    assert lines == [f"{one['metadata']['name']} slots=4 # {one['spec']['nodeName']}" for one in pods]


def test_a_node_joins(site: Site) -> None:
    """The daemon goes on with the same jobs on a larger tree."""
    kube = site.kube
    kube.admin.post(JOBS, job("stays", 4, 8, None))
    site.go_on(lambda: site.runs("default.job.stays"))
    before = site.daemon.status.by_id["default.job.stays"]
    kube.add_node(16)
    try:
        site.go_on(lambda: len(site.daemon.status.nodes) == 17)
        after = site.daemon.status.by_id["default.job.stays"]
        assert (after.state, after.placement, after.since_s) == ("running", before.placement, before.since_s)
        kube.admin.post(JOBS, job("wide", 13, 8, None))
        site.go_on(lambda: site.runs("default.job.wide"))
    finally:
        kube.admin.delete(f"{NODES}/n17")


def test_no_other_right_is_used(site: Site) -> None:
    """The audit log of what a daemon does, against deploy/kubernetes/rbac.yaml: neither more nor less."""
    kube, backend = site.kube, site.service.backend
    assert isinstance(backend, KubernetesBackend)
    seen = kube.audit.stat().st_size if kube.audit.exists() else 0
    body = job("all", 2, 8, None)
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "hosts", "configMap": {"name": "dally-hosts-all"}}]
    kube.admin.post(JOBS, body)
    site.go_on(lambda: site.runs("default.job.all"))
    backend.preempt_job("default.job.all")
    site.go_on(lambda: site.runs("default.job.all"))
    made = backend.submit(Submission(JobSpec(4), ("sleep", "1000")))
    site.go_on(lambda: site.runs(made))
    backend.cancel_job(made)
    backend.drain("n01", "a test")
    backend.resume("n01")
    site.go_on(lambda: made not in site.daemon.status.by_id)
    time.sleep(1.0)  # the events and the lease
    rows = audited(kube, seen)
    used, refused = set(), []
    for row in rows:
        if "objectRef" in row:
            ref = row["objectRef"]
            what = "/".join(part for part in (ref["resource"], ref.get("subresource")) if part)
            used.add((row["verb"], ref.get("apiGroup", ""), what))
            refused += [row["requestURI"]] if row["responseStatus"]["code"] == 403 else []
    assert not refused
    granted = {right for role in RIGHTS for right in role}
    idle = {("get", "kubeflow.org", "pytorchjobs"), ("get", "kubeflow.org", "mpijobs")}
    idle |= {("get", "ray.io", "rayclusters"), ("get", "leaderworkerset.x-k8s.io", "leaderworkersets")}
    idle |= {("get", "jobset.x-k8s.io", "jobsets"), ("patch", "", "pods"), ("delete", "", "pods")}
    idle |= {("get", "", "persistentvolumeclaims"), ("patch", "", "persistentvolumeclaims")}
    idle |= {("get", "", "pods/log")}
    idle |= {(verb, "batch", "jobs") for verb in ("list", "watch", "patch")}
    idle |= {("get", "", "persistentvolumes"), ("get", "storage.k8s.io", "storageclasses")}
    groups = ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh")
    idle |= {("get", group, "podgroups") for group in groups}
    queues = ("clusterqueues", "cohorts", "localqueues", "resourceflavors")
    idle |= {(verb, "kueue.x-k8s.io", kind) for verb in ("list", "watch") for kind in queues}
    begun = {(verb, "", kind) for verb in ("list", "watch") for kind in ("nodes", "pods")}  # before
    begun |= {(verb, "scheduling.k8s.io", "priorityclasses") for verb in ("list", "watch")}
    begun |= {("create", "coordination.k8s.io", "leases"), ("get", "", "secrets"), ("create", "", "secrets")}
    assert used <= granted
    assert granted - used <= idle | begun, granted - used


def audited(kube: KubeCluster, since: int) -> list[dict[str, Any]]:
    """What the user dally asked for."""
    with kube.audit.open() as file:
        file.seek(since)
        return [json.loads(line) for line in file]


def test_a_dry_run_only_looks(kube: KubeCluster, tmp_path: Path) -> None:
    """Beside whoever schedules; it decides and tells, and writes nothing."""
    seen = kube.audit.stat().st_size if kube.audit.exists() else 0
    site = Site(kube, tmp_path, dry_run=True)
    kube.admin.post(JOBS, job("would", 4, 8, None))
    until(lambda: len(kube.pods()) == 4)
    site.go_on(lambda: site.daemon.status.by_id.get("default.job.would"))
    for _ in range(3):
        site.cycle()
    would = [row["reason"] for row in site.service.store.rows(select(EVENTS)) if row["kind"] == "would"]
    site.service.close()
    assert would == ["run on n01:8+n02:8+n03:8+n04:8"]
    assert not any(one["spec"].get("nodeName") for one in kube.pods())
    assert {row["verb"] for row in audited(kube, seen)} <= {"get", "list", "watch"}


def rights() -> list[set[tuple[str, str, str]]]:
    """By role: verb, group and resource."""
    found = []
    for entry in yaml.safe_load_all((ROOT / "deploy/kubernetes/rbac.yaml").read_text()):
        rules = entry.get("rules") or ()
        found.append(
            {(verb, group, kind) for rule in rules for group in rule["apiGroups"] for kind in rule["resources"]
             for verb in rule["verbs"]}
        )  # fmt: skip
    return found


RIGHTS = rights()


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def define(kube: KubeCluster, group: str, version: str, kind: str, space: str = "default") -> str:
    """A kind of object, of which anything may be said; where its objects are. No `space`: in the whole cluster."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    served = [{"name": version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Namespaced" if space else "Cluster", "names": names, "versions": served}
    folder = f"/apis/{group}/{version}{f'/namespaces/{space}' if space else ''}/{plural}"
    if not exists(kube, folder):
        kube.admin.post(CRDS, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})
    return folder


def test_gangs_of_other_controllers(site: Site) -> None:
    """Pods as the operators of these kinds make them; a pod without GPUs goes with its gang."""
    kube = site.kube
    example = yaml.safe_load((ROOT / "deploy/kubernetes/pytorchjob.yaml").read_text())
    template = example["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    launcher = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}}
    roles_of_mpi = {"Launcher": {"template": launcher}, "Worker": {"replicas": 2, "template": template}}
    mpi = {"mpiReplicaSpecs": roles_of_mpi}
    set_spec = {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 2, "template": template}}}]}
    ray = {"headGroupSpec": {"template": launcher}, "workerGroupSpecs": [{"replicas": 2, "template": template}]}
    asked = [
        ("ray.io", "v1", "RayCluster", ray, "ray.io/cluster", 2),
        ("kubeflow.org", "v1", "PyTorchJob", example["spec"], "training.kubeflow.org/job-name", 4),
        ("kubeflow.org", "v2beta1", "MPIJob", mpi, "training.kubeflow.org/job-name", 2),
        ("jobset.x-k8s.io", "v1alpha2", "JobSet", set_spec, "jobset.sigs.k8s.io/jobset-name", 4),
    ]
    for group, version, kind, spec, label, pods in asked:
        folder = define(kube, group, version, kind)
        until(lambda folder=folder: exists(kube, folder))  # type: ignore[misc]
        name = kind.lower()
        body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}
        made = kube.admin.post(folder, body)["metadata"]
        owner = {"apiVersion": f"{group}/{version}", "kind": kind, "name": name, "uid": made["uid"]}
        roles = [(8, "worker", number) for number in range(pods)]
        roles += [(0, "launcher", 0)] if kind in ("MPIJob", "RayCluster") else []
        for gpus, role, number in roles:
            labels = {label: name, "training.kubeflow.org/replica-type": role, "test/gang": name}
            entry = pod(f"{name}-{role}-{number}", gpus, labels=labels)
            entry["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            kube.admin.post(PODS, entry)
    ids = [f"default.{kind.lower()}.{kind.lower()}" for _, _, kind, *_ in asked]
    site.go_on(lambda: all(site.runs(job_id) for job_id in ids))
    site.go_on(lambda: all(one["spec"].get("nodeName") for one in kube.pods()))
    nodes = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in site.pods("mpijob")}
    assert nodes["mpijob-launcher-0"] == nodes["mpijob-worker-0"]
    for group, version, kind, *_ in asked:
        kube.admin.delete(f"/apis/{group}/{version}/namespaces/default/{kind.lower()}s/{kind.lower()}")


def test_groups_of_a_leader_worker_set(site: Site) -> None:
    """Each group is a gang of its own, the leader first; the set itself is nobody's to delete for one group."""
    kube = site.kube
    gpus = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}
    folder = define(kube, "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet")
    until(lambda: exists(kube, folder))
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": gpus}}
    about: dict[str, Any] = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm"},
    }
    made = kube.admin.post(folder, {**about, "spec": spec})["metadata"]
    owner = {**about, "name": "llm", "uid": made["uid"], "controller": True}
    del owner["metadata"]
    for group in range(2):
        for index in range(2):
            names = {"name": "llm", "group-index": str(group), "worker-index": str(index)}
            labels = {f"leaderworkerset.sigs.k8s.io/{name}": value for name, value in names.items()}
            entry = pod(f"llm-{group}" + (f"-{index}" if index else ""), 8, labels=labels)
            entry["metadata"]["ownerReferences"] = [owner]
            if (group, index) != (1, 1):
                kube.admin.post(PODS, entry)
    site.go_on(lambda: site.runs("default.leaderworkerset.llm-0"))
    line = site.daemon.status.by_id["default.leaderworkerset.llm-1"]
    assert line.state == "held"
    ranks = {
        one["metadata"]["name"]: one["metadata"]["annotations"].get("dally.io/rank")
        for one in kube.pods()
        if one["spec"].get("nodeName")
    }
    assert ranks == {"llm-0": "0", "llm-0-1": "1"}
    with pytest.raises(BackendError, match="one group of LeaderWorkerSet llm"):
        cast(KubernetesBackend, site.service.backend).cancel_job("default.leaderworkerset.llm-0")
    kube.admin.delete(f"{folder}/llm")


def test_pod_groups(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bare pods that name a PodGroup, which counts the one without GPUs too; cancelling them leaves it."""
    monkeypatch.setattr(owners, "REFUSED_AGAIN_S", 1.0)
    kube = site.kube
    folder = define(kube, "scheduling.x-k8s.io", "v1alpha1", "PodGroup")
    until(lambda: exists(kube, folder))
    about = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "train"}}
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    for name, gpus in (("head", 0), ("w-0", 8)):
        kube.admin.post(PODS, pod(name, gpus, labels=labels))
    site.go_on(lambda: "cannot be read: 404" in held_for(site, "default.podgroup-x.train"))
    site.kube.admin.post(folder, {**about, "spec": {"minMember": 3}})
    backend = cast(KubernetesBackend, site.service.backend)
    site.go_on(lambda: held_for(site, "default.podgroup-x.train") == "1 of its 2 pods are there")
    kube.admin.post(PODS, pod("w-1", 8, labels=labels))
    site.go_on(lambda: site.runs("default.podgroup-x.train"))
    site.go_on(lambda: all(one["spec"].get("nodeName") for one in kube.pods()))
    ranks = {one["metadata"]["name"]: one["metadata"]["annotations"].get("dally.io/rank") for one in kube.pods()}
    assert ranks == {"head": "-1", "w-0": "0", "w-1": "1"}
    backend.cancel_job("default.podgroup-x.train")
    site.go_on(lambda: not kube.pods())
    assert kube.admin.get(f"{folder}/train")["spec"] == {"minMember": 3}
    kube.admin.delete(f"{folder}/train")


def held_for(site: Site, job_id: str) -> str:
    """Why the job is held; empty if it is not."""
    observed = {job.job_id: job for job in site.service.backend.snapshot().jobs}.get(job_id)
    return observed.reason if observed is not None and observed.state == "held" else ""


def exists(kube: KubeCluster, folder: str) -> bool:
    try:
        kube.admin.get(folder)
    except BackendError:
        return False
    return True
