"""On a real API server: a node whose jobs really run slow is cordoned with the evidence, probed, and comes back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dally.live.assembly import Service
from dally.live.backends.kubernetes.kube_api import STRATEGIC
from dally.live.config import Config, Setup
from dally.live.job_progress import ProgressReader
from dally.live.machine_health import REASON, SIGNALLED
from tests.live.kube_cluster import JOBS, NODES, KubeCluster, job
from tests.live.test_kube_progress import Kubelet, kubelet
from tests.live.test_kube_users import Site

__all__ = ["kubelet"]  # a fixture

# A step sleeps, and three times as long while the file of its node is there.
LOOP = """
import os, sys, time
folder, node = sys.argv[1:]
for step in range(1, 100001):
    time.sleep(0.3 if os.path.exists(f"{folder}/slow-{node}") else 0.1)
    print(f"step {step}/100000 | loss 2.31", flush=True)
"""
GANGS = 6


class HealthSite(Site):
    """A daemon that acts on what it finds, beside training loops at the pace of their nodes."""

    def __init__(self, kube: KubeCluster, folder: Path) -> None:
        self.kube, self.folder = kube, folder
        self.loops: dict[str, subprocess.Popen[bytes]] = {}
        options = {
            "kubeconfig": kube.config, "context": "dally", "image": "none", "logs": "true",
            "conditions": "GpuUnhealthy",
        }  # fmt: skip
        health = {
            "act": "on", "most_out": "0.07", "every_s": "3", "again_s": "2",
            "probe": f"sh -c 'test ! -e {folder}/slow-$DALLY_MACHINE'",
        }  # fmt: skip
        config = Config(
            "kubernetes", folder=folder / "state", kubernetes=options, health=health, setup=Setup("fifo")
        ).checked()
        self.service = Service(config)
        self.daemon = self.service.daemon
        self.daemon.run_cycle()
        assert self.daemon.scheduler is not None
        self.daemon.scheduler.progress = ProgressReader(every_s=0.5)

    def node_of(self, name: str) -> str:
        (node,) = self.daemon.status.by_id[f"default.job.{name}"].placement
        return node

    def train(self, name: str) -> None:
        """A Job of one whole node; its loop begins as it runs."""
        self.kube.admin.post(JOBS, job(name, 1, 8, None))
        self.go_on(lambda: self.runs(f"default.job.{name}"))
        words = [sys.executable, "-c", LOOP, str(self.folder), self.node_of(name)]
        with (self.folder / name).open("ab") as printed:
            self.loops[name] = subprocess.Popen(words, stdout=printed)

    def end(self, name: str) -> None:
        loop = self.loops.pop(name)
        loop.kill()
        loop.wait()
        self.kube.admin.call("DELETE", f"{JOBS}/{name}", {"propagationPolicy": "Background"})
        self.go_on(lambda: not self.pods(name))

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.kube.admin.get(f"{NODES}/{name}")
        return found

    def cordoned(self) -> dict[str, str]:
        """Nodes that take no pods, and why, as the server says."""
        items = self.kube.admin.get(NODES)["items"]
        notes = {
            one["metadata"]["name"]: one["metadata"].get("annotations") or {}
            for one in items if one["spec"].get("unschedulable")
        }  # fmt: skip
        return {name: " ".join(rows.values()) for name, rows in notes.items()}

    def report(self, name: str, status: str) -> None:
        """What the node-problem-detector would write."""
        sick = {"type": "GpuUnhealthy", "status": status, "reason": "XidError", "message": "79"}
        self.kube.admin.patch(f"{NODES}/{name}/status", {"status": {"conditions": [sick]}}, STRATEGIC)

    def close(self) -> None:
        for loop in self.loops.values():
            loop.kill()
            loop.wait()
        self.service.close()


@pytest.fixture
def site(kube: KubeCluster, kubelet: Kubelet, tmp_path: Path) -> Iterator[HealthSite]:
    made = HealthSite(kube, tmp_path)
    yield made
    made.close()


def test_node_whose_job_really_runs_slow_is_cordoned_and_comes_back_after_a_passing_probe(site: HealthSite) -> None:
    names = [f"g{number}" for number in range(GANGS)]
    for name in names:
        site.train(name)

    def known() -> bool:
        windows = site.service.health.windows()
        return len(windows) == GANGS and min(windows.values()) >= 4

    site.go_on(known, 240.0)
    assert site.cordoned() == {}
    slow = site.node_of("g2")
    (site.folder / f"slow-{slow}").touch()
    site.go_on(site.cordoned, 240.0)
    assert list(site.cordoned()) == [slow]
    assert REASON in site.cordoned()[slow]
    site.end("g2")
    site.go_on(lambda: slow in site.service.health._again_s, 120.0)  # the first probe fails
    assert list(site.cordoned()) == [slow]
    (site.folder / f"slow-{slow}").unlink()
    site.go_on(lambda: not site.cordoned(), 120.0)


def test_condition_of_the_node_problem_detector_cordons_until_it_is_gone(site: HealthSite) -> None:
    site.report("n09", "True")
    site.go_on(site.cordoned, 60.0)
    (why,) = site.cordoned().values()
    assert list(site.cordoned()) == ["n09"]
    assert f"{SIGNALLED}: GpuUnhealthy" in why
    for number in range(10):  # a detector that says so of most nodes is wrong: no other is cordoned
        site.report(f"n{number + 1:02d}", "True")
    for _ in range(40):
        site.daemon.run_cycle()
        site.service.backend.wait(0.1)
        assert set(site.cordoned()) <= {"n09"}
    for number in range(10):
        site.report(f"n{number + 1:02d}", "False")
    site.go_on(lambda: not site.cordoned(), 60.0)
