"""Pods that were told to go and do not end, as with a finalizer of their user's; the server is in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.live.backends import base
from dally.live.backends.kubernetes import KubernetesBackend, gang_repair
from dally.live.backends.kubernetes.kube_api import Entry, RefusedError
from tests.live.kube_memory import JOBS, Server, job_of, of_job, told
from tests.live.test_kube_needs import FakeBench

DELETED = "2026-11-16T10:00:00Z"


def stuck(entry: Entry, node: str) -> Entry:
    """The same, told to go."""
    about = {**entry["metadata"], "deletionTimestamp": DELETED, "finalizers": ["example.com/keep"]}
    spec = {**entry["spec"], "nodeName": node, "terminationGracePeriodSeconds": 10**9}
    return {**entry, "metadata": about, "spec": spec, "status": {"phase": "Running"}}


@pytest.fixture
def bench(server: Server, backend: KubernetesBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    """A gang on both nodes, which was deleted: of its pods only the one on n1 remains, whatever its grace."""
    monkeypatch.setattr(gang_repair, "OVERTIME_S", 0.0)
    monkeypatch.setattr(gang_repair, "LONGEST_GRACE_S", 0.0)
    server.objects[f"{JOBS}/g"] = job_of("g", 2)
    pods = [of_job("g", number) for number in range(2)]
    server.pods += pods
    made = FakeBench(backend, tmp_path)
    made.cycle()
    made.cycle()
    assert made.runs("a.job.g")
    backend.ledger.put(stuck(pods[0], "n1"))
    backend.ledger.drop(pods[1])
    return made


def test_it_keeps_its_own_gpus_alone(server: Server, backend: KubernetesBackend, bench: FakeBench) -> None:
    """The other node of its gang, whose Job is gone, is for others; its own is not, after a restart either."""
    server.objects[f"{JOBS}/g"] = RefusedError("get", 404, {})
    for name in ("one", "two"):
        server.objects[f"{JOBS}/{name}"] = job_of(name, 1)
        backend.ledger.put(of_job(name))
    for _ in range(6):
        bench.cycle()
    assert "pod a/g-0 does not end on n1" in bench.problems
    by_name = told(backend)
    assert (by_name["one"].state, by_name["one"].placement) == (base.RUNNING, {"n2": 8})
    assert by_name["two"].state == base.QUEUED
    assert {(job.managed, job.state) for job in by_name.values() if job.placement == {"n1": 8}} == {
        (False, base.RUNNING)
    }
    bench.begin()
    bench.cycle()
    assert told(backend)["two"].state == base.QUEUED
    backend.ledger.drop(of_job("g"))
    for _ in range(4):
        bench.cycle()
    assert told(backend)["two"].placement == {"n1": 8}


def test_its_gang_goes_on_elsewhere(server: Server, backend: KubernetesBackend, bench: FakeBench) -> None:
    """Its controller has made other pods, and there is a third node."""
    room = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1Ti"}
    backend.nodes.put({"metadata": {"name": "n3"}, "status": {"allocatable": room}})
    bench.topology = backend.topology()
    bench.begin()
    for number in (2, 3):
        backend.ledger.put(of_job("g", number))
    for _ in range(6):
        bench.cycle()
    assert (told(backend)["g"].state, told(backend)["g"].placement) == (base.RUNNING, {"n2": 8, "n3": 8})
