"""Gangs that no node could hold, left to a cluster's autoscaler: what it looks at, and what becomes of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dally.errors import InputError
from dally.live.backends.base import WaitingNotice
from dally.live.backends.kubernetes import KubeOptions, KubernetesBackend, node_ledger, read_options
from dally.live.backends.kubernetes.node_requests import NodeRequests
from tests.live.kube_cluster import JOBS, NODES, KubeCluster, job, until
from tests.live.test_kube_users import Site


def scheduled(site: Site, gang: str) -> tuple[str, str]:
    """Reason and message of PodScheduled, which autoscalers look at, of all pods of a gang."""
    rows = [
        (row["reason"], row["message"])
        for one in site.pods(gang)
        for row in one["status"].get("conditions") or ()
        if row["type"] == "PodScheduled" and row["status"] == "False"
    ]
    return rows[0] if len(rows) == len(site.pods(gang)) and len(set(rows)) == 1 else ("", "")


@pytest.fixture
def more_nodes(kube: KubeCluster) -> Iterator[list[str]]:
    """Names of nodes that a test adds, which go again."""
    result: list[str] = []
    yield result
    for name in result:
        kube.admin.delete(f"{NODES}/{name}")


def test_only_what_no_node_could_hold_asks_for_nodes(
    kube: KubeCluster, tmp_path: Path, more_nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gang that waits for others does not. The larger one starts on its node, and a node that goes is missed."""
    site = Site(kube, tmp_path, autoscaler="10m")
    try:
        kube.admin.post(JOBS, job("first", 16, 8, None))
        site.go_on(lambda: site.runs("default.job.first"))
        for name, pods in (("second", 16), ("large", 17)):
            kube.admin.post(JOBS, job(name, pods, 8, None))
        site.go_on(lambda: scheduled(site, "large")[0] == "Unschedulable")
        assert "left to the cluster's autoscaler for 10m" in scheduled(site, "large")[1]
        site.go_on(lambda: scheduled(site, "second")[0] == "WaitingForGPUs")
        for name in ("first", "second"):
            kube.admin.delete(f"{JOBS}/{name}", {"propagationPolicy": "Background"})
        more_nodes.append("n17")
        kube.add_node(16)
        site.go_on(lambda: site.runs("default.job.large"))
        kube.admin.delete(f"{JOBS}/large", {"propagationPolicy": "Background"})
        site.go_on(lambda: not site.pods("large"))
        monkeypatch.setattr(node_ledger, "GONE_S", 0.2)
        kube.admin.delete(f"{NODES}/n17")
        site.go_on(lambda: len(site.daemon.status.nodes) == 16)
    finally:
        site.service.close()


def test_a_cluster_that_was_scaled_to_nothing(kube: KubeCluster, tmp_path: Path) -> None:
    """A daemon waits for its first node, and its pods ask for it meanwhile."""
    kube.admin.post(JOBS, job("one", 1, 8, None))
    options = KubeOptions(kubeconfig=kube.config, context="dally", nodes="pool=late", autoscaler="10m")
    backend = KubernetesBackend(options, tmp_path)
    claim, topologies = backend.claim(), list[Any]()
    try:
        waiter = threading.Thread(target=lambda: topologies.append(backend.topology()), daemon=True)
        waiter.start()
        site = cast(Site, KubeView(kube))
        until(lambda: scheduled(site, "one")[0] == "Unschedulable")
        assert "no node has GPUs" in scheduled(site, "one")[1]
        assert not topologies
        kube.admin.patch(f"{NODES}/n03", {"metadata": {"labels": {"pool": "late"}}})
        waiter.join(20.0)
        assert [topology.names[0] for topology in topologies] == [["n03"]]
    finally:
        kube.admin.patch(f"{NODES}/n03", {"metadata": {"labels": {"pool": None}}})
        backend.close()
        claim.release()


class KubeView:
    """Pods by gang, of a cluster without a daemon."""

    def __init__(self, kube: KubeCluster) -> None:
        self.kube = kube

    def pods(self, gang: str) -> list[dict[str, Any]]:
        return [one for one in self.kube.pods() if one["metadata"]["labels"].get("test/gang") == gang]


def test_it_is_left_to_it_for_a_while() -> None:
    """Then its pods ask for no more nodes, and say so; a gang that comes back has the whole time again."""
    requests = NodeRequests(60.0)
    line = WaitingNotice("a.job.j", "unschedulable", "", "asks for more GPUs than there are", None)
    assert requests.about(line, 100.0)[0] == "Unschedulable"
    assert requests.about(line, 159.0)[0] == "Unschedulable"
    reason, addition = requests.about(line, 161.0)
    assert (reason, "added no nodes for it within 1m" in addition) == ("WaitingForGPUs", True), addition
    requests.keep(frozenset())
    assert requests.about(line, 162.0)[0] == "Unschedulable"
    assert requests.about(line._replace(state="waiting"), 163.0) == ("WaitingForGPUs", "")


def test_without_an_autoscaler_all_pods_that_wait_are_unschedulable() -> None:
    """As those are of which kube-scheduler says it."""
    line = WaitingNotice("a.job.j", "waiting", "gpus", "first in the queue", None)
    assert NodeRequests(None).about(line, 0.0) == ("Unschedulable", "")


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"autoscaler": "soon"}, "autoscaler"), ({"autoscaler": "15m", "events": "false"}, "needs events"),
     ({"trust": "user,team"}, "'team': must be of user, queue")],
)  # fmt: skip
def test_options_of_no_sense(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_options(options)
