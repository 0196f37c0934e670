"""PriorityClasses of a real API server: order and preemption among Dally's own jobs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dally.live.backends.kubernetes import priority_watch
from dally.live.backends.kubernetes.kube_api import KubeApi
from dally.live.backends.kubernetes.priority_watch import PATH, PriorityWatch
from dally.quotas.known_formats import read_quotas
from tests.live.kube_cluster import JOBS, KubeCluster, job
from tests.live.test_kube_users import Site

CLASSES = {"batch": 10, "urgent": 1000}


@pytest.fixture
def classes(kube: KubeCluster) -> Iterator[None]:
    """Two of an operator's, for a test."""
    for name, value in CLASSES.items():
        kube.admin.post(PATH, {"metadata": {"name": name}, "value": value})
    yield
    for name in CLASSES:
        kube.admin.delete(f"{PATH}/{name}")


def submit(kube: KubeCluster, name: str, pods: int, priority: str) -> str:
    body = job(name, pods, 8, None)
    body["spec"]["backoffLimit"] = 100
    body["spec"]["template"]["spec"]["priorityClassName"] = priority
    kube.admin.post(JOBS, body)
    return f"default.job.{name}"


@pytest.mark.usefixtures("classes")
def test_a_higher_class_preempts_and_goes_first(kube: KubeCluster, tmp_path: Path) -> None:
    """And no more gangs than it needs; the one that it stopped waits again, behind it."""
    site = Site(kube, tmp_path, policy="dally")
    try:
        running = [submit(kube, f"b{number}", 8, "batch") for number in range(2)]
        site.go_on(lambda: all(map(site.runs, running)))
        later = submit(kube, "b2", 8, "batch")
        site.go_on(lambda: later in site.daemon.status.by_id)
        urgent = submit(kube, "u", 8, "urgent")
        site.go_on(lambda: site.runs(urgent), 40.0)
        assert sum(map(site.runs, running)) == 1
        assert not site.runs(later)
        assert site.daemon.status.problems == ()
    finally:
        site.service.close()


def test_classes_may_come_while_a_daemon_runs(kube: KubeCluster, tmp_path: Path) -> None:
    site = Site(kube, tmp_path)
    try:
        running = submit(kube, "b0", 16, "")
        site.go_on(lambda: site.runs(running))
        kube.admin.post(PATH, {"metadata": {"name": "urgent"}, "value": 1000})
        urgent = submit(kube, "u", 2, "urgent")
        site.go_on(lambda: site.runs(urgent), 40.0)
    finally:
        site.service.close()
        kube.admin.delete(f"{PATH}/urgent")


def test_a_server_that_tells_of_no_classes(
    kube: KubeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose rights are older than this: jobs are scheduled without priorities, and the log says so."""
    monkeypatch.setattr(priority_watch, "PATH", "/apis/nowhere.example.com/v1/priorityclasses")
    site = Site(kube, tmp_path)
    try:
        running = submit(kube, "b0", 1, "")
        site.go_on(lambda: site.runs(running))
        assert any("priorities may be old" in line for line in site.daemon.status.problems)
    finally:
        site.service.close()


def entry(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value, **more}


def test_the_file_of_classes(tmp_path: Path) -> None:
    """One class of each value, with that of pods that name none; Kubernetes' own are none of ours."""
    watch = PriorityWatch(cast(KubeApi, None), tmp_path, threading.Event())
    watch.put(entry("system-node-critical", 2_000_001_000))
    assert (watch.classes(), watch.queues(), watch.generation) == ({}, "", 0)
    for one in (entry("urgent", 1000), entry("also-urgent", 1000), entry("low", -5), entry("low", -5)):
        watch.put(one)
    assert watch.classes() == {"low": -5, "none": 0, "also-urgent": 1000}
    assert watch.generation == 3
    tree = read_quotas(Path(watch.queues()))
    assert (tree.classes, list(tree.nodes), tree.nodes["all"].min_runtime_s) == (watch.classes(), ["all"], 0.0)
    watch.put(entry("usual", 50, globalDefault=True))
    assert watch.classes() == {"low": -5, "usual": 50, "also-urgent": 1000}
    watch.only([])
    assert watch.queues() == ""
