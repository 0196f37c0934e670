"""Scheduling gates, which no server here knows: against the answers that one of version 1.36 gave."""

from __future__ import annotations

import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from dally.live.backends import base
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.binding import Binder, Seating
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.options import KubeOptions
from dally.live.backends.kubernetes.plan_seal import PlanSeal
from dally.live.backends.kubernetes.pod_gang import gang_of, job_of_gang
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import GangKey
from dally.live.backends.kubernetes.scheduling_gates import SINCE, version_of
from tests.live.fake_gates import GatedServer

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def tape(shared: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((shared / "kubernetes" / "gates-1.36.json").read_text())
    return found


def test_the_fake_answers_as_the_real_one_did(tape: list[dict[str, Any]]) -> None:
    """Every request of the recording, in its order."""
    server = GatedServer()
    first = tape[0]["answer"]
    for name in "abcd":
        entry = copy.deepcopy(first)
        entry["metadata"]["name"] = name
        server.pods[f"{PODS}/{name}"] = entry
    server.pods[f"{PODS}/d"]["spec"]["schedulerName"] = "dally"
    checked = 0
    for said in tape:
        path, body = said["path"], copy.deepcopy(said["request"])
        for step in body if isinstance(body, list) else ():
            if step["path"] == "/metadata/resourceVersion":
                server.pods[path]["metadata"]["resourceVersion"] = step["value"]
        try:
            server.call(said["method"], path, body, said["type"])
            code: Any = "2xx"
        except RefusedError as refused:
            code = refused.code
        assert code == said["code"], said["step"]
        checked += 1
    assert checked >= 20


def gated(tape: list[dict[str, Any]], name: str, scheduler: str) -> Entry:
    entry: Entry = copy.deepcopy(tape[0]["answer"])
    about = entry["metadata"]
    about.update(name=name, uid=f"uid-{name}", labels={"dally.io/gang": "g", "dally.io/gang-size": "2"})
    entry["spec"]["schedulerName"] = scheduler
    return entry


@pytest.mark.parametrize("scheduler", ["default-scheduler", "dally"])
def test_a_gated_gang_is_pinned_and_let_through(tape: list[dict[str, Any]], scheduler: str) -> None:
    """Kubernetes' own scheduler binds what is pinned; pods that name us we bind ourselves, their gate open."""
    server, changed = GatedServer(), threading.Event()
    seal = PlanSeal(cast(KubeApi, server), "dally", "key")
    ledger, nodes = PodLedger(changed, lambda pod: True, seal.holds), NodeLedger(KubeOptions(), changed)
    for number in range(2):
        label = {"kubernetes.io/hostname": f"host{number}"}
        nodes.put(
            {"metadata": {"name": f"n{number}", "labels": label}, "status": {"allocatable": {"nvidia.com/gpu": 8}}}
        )
    entries = [gated(tape, name, scheduler) for name in ("p0", "p1")]
    server.pods = {f"{PODS}/{entry['metadata']['name']}": entry for entry in entries}
    for entry in entries:
        ledger.put(entry)
    key = GangKey("default", "gang", "g")
    pods = ledger.gang(key)
    assert job_of_gang(gang_of(key, pods, None, lambda _: False), None, False, "").state == base.QUEUED
    with ThreadPoolExecutor(2) as pool:
        api, evictor = cast(KubeApi, server), cast(Any, None)
        binder = Binder(api, pool, ledger, nodes, Mock(), evictor, seal, Mock(), "dally")
        binder.bind(Seating(pods, ["n0", "n1"], [0, 1], {"n0": 8, "n1": 8}, "rack", Fence()))
    for entry in server.pods.values():
        ledger.put(entry)
    state = base.STARTING if scheduler != "dally" else base.RUNNING
    job = job_of_gang(gang_of(key, ledger.gang(key), None, lambda _: False), None, False, "")
    assert (job.state, job.placement) == (state, {"n0": 8, "n1": 8})
    spec, notes = (server.pods[f"{PODS}/p1"][part] for part in ("spec", "metadata"))
    assert not spec.get("schedulingGates")
    assert notes["annotations"][names.RANK] == "1"
    if scheduler == "dally":
        assert spec["nodeName"] == "n1"
        return
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "host1"}
    for number, entry in enumerate(server.pods.values()):
        entry["spec"]["nodeName"] = f"n{number}"
        ledger.put(entry)
    job = job_of_gang(gang_of(key, ledger.gang(key), None, lambda _: False), None, False, "")
    assert job.state == base.RUNNING


def test_a_taint_of_gpu_nodes_keeps_pods_of_kube_scheduler_away(tape: list[dict[str, Any]]) -> None:
    """Pods that we bind tolerate it unasked; behind a gate they would wait for a node that refuses them."""
    changed, options = threading.Event(), KubeOptions()
    ledger = PodLedger(changed, lambda pod: True, lambda *_: True, options.scheduler_name, options.taints)
    nodes = NodeLedger(options, changed)
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    for name, taints in (("tainted", [taint]), ("free", [])):
        about = {"metadata": {"name": name}, "spec": {"taints": taints}}
        nodes.put({**about, "status": {"allocatable": {"nvidia.com/gpu": 8}}})
    nodes.draw(lambda _: 0)
    tolerating = gated(tape, "c", "default-scheduler")
    tolerating["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    for entry in (gated(tape, "a", "dally"), gated(tape, "b", "default-scheduler"), tolerating):
        entry["metadata"]["labels"] = {"dally.io/gang": entry["metadata"]["name"]}
        ledger.put(entry)
    pods = {name: ledger.gang(GangKey("default", "gang", name)) for name in "abc"}
    assert {name: nodes.allowed(rows) for name, rows in pods.items()} == {
        "a": None, "b": frozenset({"free"}), "c": None,
    }  # fmt: skip


def test_versions() -> None:
    assert version_of({"major": "1", "minor": "27+"}) >= SINCE
    assert version_of({"major": "1", "minor": "20"}) < SINCE
    assert version_of({}) < SINCE
