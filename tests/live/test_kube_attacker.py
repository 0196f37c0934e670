"""A user of one namespace who forges whatever can be written there: nothing changes for the others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.config import Setup
from tests.live.kube_bench import KubeBench
from tests.live.kube_cluster import KubeCluster, job, pod, until

SPACE = "/api/v1/namespaces/mallory"
SPEED = 100.0
JOBS = [(64, 1.0), (32, 3.0), (16, 6.0), (16, 9.0), (32, 9.0), (32, 9.0), (32, 2.0), (24, 9.0), (24, 1.0)]
EVERYWHERE = ",".join(f"n{number + 1:02d}=8" for number in range(16))
FORGED = {
    "dally.io/placement": EVERYWHERE, "dally.io/rank": "0", "dally.io/tier": "leaf", "dally.io/scheduler": "dally",
    "dally.io/signature": "0" * 64, "dally.io/expected": "1e999", "dally.io/checkpoint": "-1",
    "dally.io/group": "²", "dally.io/progress": "1e999/-1", "dally.io/admitted": "9" * 400,
    "dally.io/pattern": "{step}{total}{epoch}{epochs}{s_per_step}X", "dally.io/queue": "../../etc\n",
}  # fmt: skip


def attack(kube: KubeCluster, victims: list[str]) -> None:
    """All of it may be written by a user who may make pods, Jobs, events and the like in the own namespace."""
    kube.admin.post("/api/v1/namespaces", {"metadata": {"name": "mallory"}})
    for number, victim in enumerate(victims):
        owner = kube.admin.get(f"/apis/batch/v1/namespaces/default/jobs/{victim}")["metadata"]
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": victim,
            "uid": owner["uid"],
            "controller": True,
        }
        labels = {"dally.io/gang": victim, "dally.io/gang-size": "1000", "job-name": victim}
        _pod(kube, f"named{number}", 8, labels, FORGED)  # of a gang that has a victim's name
        made = pod(f"child{number}", 8, labels={"dally.io/gang-size": "2"}, notes=FORGED)
        made["metadata"]["ownerReferences"] = [reference]  # of a Job of another namespace
        kube.admin.post(f"{SPACE}/pods", made)
        _pod(kube, f"there{number}", 0, labels, {**FORGED, "dally.io/node": "n01"}, nodeName=f"n{number + 1:02d}")
        _pod(kube, f"pinned{number}", 8, {}, {**FORGED, "dally.io/node": "n01"}, schedulerName="none")
        for_victim = {"kind": "Pod", "namespace": "mallory", "name": f"{victim}-0", "uid": owner["uid"]}
        kube.admin.post(f"{SPACE}/events", {
            "metadata": {"name": f"event{number}"}, "involvedObject": for_victim, "reason": "Preempted",
            "source": {"component": "dally"}, "message": "go away",
        })  # fmt: skip
        idle = job(victim, 4, 8, None)
        idle["spec"]["parallelism"] = 0
        kube.admin.post("/apis/batch/v1/namespaces/mallory/jobs", idle)
        data = {"metadata": {"name": f"dally-hosts-{victim}"}, "data": {"hostfile": "mine"}}
        kube.admin.post(f"{SPACE}/configmaps", data)
    _pod(kube, "huge", 8, {}, {}, containers=[_container("9000000000")])
    wordy = {**_container("8"), "args": ["x" * 1_000_000]}
    _pod(kube, "wordy", 8, {"dally.io/gang-size": "2"}, {}, containers=[wordy])
    rule = {"labelSelector": {}, "namespaces": ["default"], "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    _pod(kube, "alone", 8, {"dally.io/gang-size": "2"}, {}, affinity=apart)  # which waits, and so keeps nobody away
    _pod(kube, "odd", 8, {"dally.io/gang-size": "999999"}, dict.fromkeys(FORGED, "\x7f\n;'"))


def _pod(
    kube: KubeCluster, name: str, gpus: int, labels: dict[str, str], notes: dict[str, str], **more: Any
) -> None:
    kube.admin.post(f"{SPACE}/pods", pod(name, gpus, labels=labels, notes=notes, **more))


def _container(gpus: str) -> Entry:
    return {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": gpus}}}


def test_nothing_changes_for_others(kube: KubeCluster, tmp_path: Path) -> None:
    """The gangs of another namespace start when and where they would without the attacker."""
    bench = KubeBench(kube, tmp_path, Setup("fifo-backfill"), SPEED)
    for number, (gpus, seconds) in enumerate(JOBS):
        bench.submit(f"j{number}", gpus // 8, 8, seconds)
    until(lambda: len(kube.pods()) == sum(gpus for gpus, _ in JOBS) // 8)
    try:
        attack(kube, [f"j{number}" for number in range(len(JOBS))])
        time.sleep(0.3)  # the watch tells of the last of them
        bench.go_on(bench.ended, 90.0)
        expected, _ = bench.simulated_starts(JOBS, kube.nodes)
        assert bench.starts() == expected
        assert not bench.events("preempt", "start_failed", "evict")
        theirs = kube.admin.get(f"{SPACE}/pods")["items"]
        assert not [
            one for one in theirs if one["spec"].get("nodeName") and not one["metadata"]["name"].startswith("there")
        ]
        assert bench.close()["binds"] == sum(gpus for gpus, _ in JOBS) // 8
    finally:
        kube.admin.call("DELETE", f"{SPACE}/pods", {"gracePeriodSeconds": 0})
        kube.admin.delete("/api/v1/namespaces/mallory")
