"""Whatever goes wrong on a real API server: no gang stays half placed, none is lost, none runs twice."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.kube_api import RefusedError
from dally.live.config import Setup
from tests.live.kube_bench import KubeBench
from tests.live.kube_cluster import JOBS, NODES, PODS, KubeCluster, condition, job, pod, until
from tests.live.kube_recorder import Recorder
from tests.web.test_standby import free_port

FIFO = Setup("fifo-backfill")
HALF_S = 10.0  # no gang may be half placed for longer


@pytest.fixture
def bench(kube: KubeCluster, tmp_path: Path) -> Iterator[KubeBench]:
    made = KubeBench(kube, tmp_path, FIFO)
    yield made
    assert made.close()["half_s"] < HALF_S


@contextmanager
def daemon(kube: KubeCluster, folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`dally serve` on the cluster."""
    settings = [f"kubeconfig={kube.config}", "context=dally"]
    command = [sys.executable, "-m", "dally", "serve", "--policy", "fifo-backfill", "--backend", "kubernetes"]
    command += [word for setting in settings for word in ("--set-backend", setting)]
    command += ["--folder", str(folder), "--listen", "127.0.0.1:0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def finished(kube: KubeCluster, jobs: int) -> bool:
    done = [
        one for one in kube.admin.get(JOBS)["items"] if one["status"].get("succeeded") == one["spec"]["parallelism"]
    ]
    return len(done) == jobs


def test_killed_ten_times(kube: KubeCluster, tmp_path: Path) -> None:
    """`kill -9` at any moment, every other time in the middle of binding a gang: each job runs once, whole."""
    chance = random.Random(5)
    recorder = Recorder(kube)
    for number in range(14):
        pods = 32 if number % 2 else 8
        kube.admin.post(JOBS, job(f"k{number}", pods, 2, chance.uniform(0.5, 1.5)))
    halves = 0
    for kill in range(11):
        half = threading.Event()
        with daemon(kube, tmp_path / "state") as process:
            assert process.stdout is not None
            if kill == 10:
                _read_until(process, b"Scheduling")  # from then on it ends when told
                until(lambda: finished(kube, 14), 60.0)
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) == 0, process.stdout.read()
                break
            recorder.on_half = (lambda _, event=half: event.set()) if kill % 2 else (lambda _: None)  # type: ignore[misc]
            if kill % 2:
                until(lambda event=half: event.wait(1.0) or finished(kube, 14), 60.0)  # type: ignore[misc]
            else:
                time.sleep(chance.uniform(1.5, 2.5))
            halves += half.is_set()
            os.kill(process.pid, signal.SIGKILL)
    found = recorder.stop()
    print(f"killed in the middle of binding {halves} times; half bound at most {found['half_s']:.1f} s")
    assert found["problems"] == []
    assert halves >= 2
    assert found["half_s"] < HALF_S
    assert all(len(runs) == 1 for runs in recorder.runs.values()), recorder.runs


def _read_until(process: subprocess.Popen[bytes], word: bytes) -> None:
    """The process has said so."""
    assert process.stdout is not None
    while word not in (line := process.stdout.readline()):
        assert line, "it has ended"


def _status(url: str) -> int:
    try:
        return httpx.get(url, trust_env=False).status_code
    except httpx.HTTPError:
        return 0


def test_two_daemons(kube: KubeCluster, tmp_path: Path) -> None:
    """One leads, the other stands by and takes over when the first is killed."""
    recorder = Recorder(kube)
    with daemon(kube, tmp_path / "first") as first:
        assert first.stdout is not None
        assert b"leads" in first.stdout.readline()
        address = f"127.0.0.1:{free_port()}"
        with daemon(kube, tmp_path / "second", "--listen", address) as second:
            assert second.stdout is not None
            assert b"standing_by" in second.stdout.readline()
            assert [_status(f"http://{address}/{probe}") for probe in ("healthz", "readyz")] == [200, 503]
            for number in range(6):
                kube.admin.post(JOBS, job(f"t{number}", 8, 2, 1.0))
            until(lambda: recorder.binds >= 8)
            first.kill()
            until(lambda: finished(kube, 6), 30.0)
            until(lambda: _status(f"http://{address}/readyz") == 200)
    found = recorder.stop()
    assert found["problems"] == []
    assert found["binds"] == 48


def test_the_server_is_killed_and_forgets(bench: KubeBench) -> None:
    """Killed and started again: 403 at first, then 410 to a watch from before its time."""
    kube, mirror = bench.kube, bench.backend.mirrors[1]
    old, lists = mirror.version, mirror.lists
    for number in range(6):
        bench.submit(f"r{number}", 16, 2, 2.0)
    bench.go_on(lambda: bench.recorder.binds >= 64)
    kube.compact()
    kube.kill_server()
    bench.go_on(lambda: bool(bench.problems))
    mirror.version = old
    kube.start_server()
    bench.go_on(bench.ended)
    assert mirror.lists > lists
    assert bench.recorder.stop()["binds"] == 6 * 16


def test_a_busy_server(bench: KubeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third write is answered by 429 or 403, every tenth not at all, the watch is cut after 20 events."""
    api = bench.backend.api
    calls, watch, count = api.call, api.watch, iter(range(10**9))

    def cut(path: str, *args: Any, **options: Any) -> Iterator[Any]:
        yield from itertools.islice(watch(path, *args, **options), 20)
        raise BackendError("the watch was cut")

    def call(method: str, path: str, *args: Any, **options: Any) -> Any:
        number = next(count) if method == "POST" else -1
        if number % 3 == 1:
            raise RefusedError(path, 429 if number % 2 else 403, {"message": "too many requests"})
        answer = calls(method, path, *args, **options)
        if number >= 0 and number % 10 == 0:
            raise BackendError("the answer is lost")
        return answer

    monkeypatch.setattr(api, "call", call)
    monkeypatch.setattr(api, "watch", cut)
    for number in range(6):
        bench.submit(f"b{number}", 8, 2, 0.5)
    bench.go_on(bench.ended)
    assert bench.recorder.binds == 48


def test_a_lost_store(bench: KubeBench, tmp_path: Path) -> None:
    """Another daemon that knows nothing takes the gangs up where they are."""
    runs = bench.submit("runs", 4, 8, None)
    bench.go_on(lambda: bench.runs(runs))
    (tmp_path / "new").mkdir()
    other = KubeBench(bench.kube, tmp_path / "new", FIFO)
    other.submitted = bench.submitted
    waits = other.submit("waits", 13, 8, None)
    other.go_on(lambda: other.runs(runs) and other.states().get(waits) == base.QUEUED)
    assert [row["placement"] for row in other.events("adopt")] == [bench.events("start")[0]["placement"]]
    assert other.close()["binds"] == 0


def test_one_pod_cannot_be_bound(bench: KubeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or nothing: the others go back, and the gang is started again later."""
    calls = bench.backend.api.call
    refused: list[str] = []

    def call(method: str, path: str, *args: Any, **options: Any) -> Any:
        if path.endswith("/binding") and len(refused) < 1:
            refused.append(path)
            raise RefusedError(path, 422, {"message": "no"})
        return calls(method, path, *args, **options)

    monkeypatch.setattr(bench.backend.api, "call", call)
    bench.submit("one", 8, 4, 0.3)
    bench.go_on(bench.ended)
    assert any("422" in problem for problem in bench.problems)
    assert bench.recorder.binds == 7 + 8


def test_pods_and_nodes_go(bench: KubeBench) -> None:
    """A user deletes a pod, a node goes with a gang on it, another joins; foreign pods take GPUs."""
    kube = bench.kube
    lost = bench.submit("lost", 8, 8, None)  # two racks
    bare = bench.submit_bare("bare", 2, 8, None)
    bench.go_on(lambda: bench.runs(lost) and bench.runs(bare))
    with pytest.raises(BackendError, match="nothing would create its pods again"):
        bench.backend.preempt_job(bare)
    before = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in kube.pods()}
    victim = next(name for name in before if name.startswith("lost-"))
    kube.admin.delete(f"{PODS}/{victim}", {"gracePeriodSeconds": 0})
    bench.go_on(lambda: _bound(kube, "lost") == sorted(node for name, node in before.items() if name[:4] == "lost"))
    assert bench.runs(lost)  # the new pod went to the place of the old one
    node = before[victim]
    kube.admin.delete(f"{NODES}/{node}")
    bench.go_on(lambda: _machine(bench, node) == base.DOWN)
    bench.go_on(lambda: bench.runs(lost) and not {node, ""} & set(_bound(kube, "lost")))
    assert len(_bound(kube, "lost")) == 8
    kube.add_node(kube.nodes.index(node))
    bench.go_on(lambda: _machine(bench, node) == base.UP)
    kube.admin.delete(f"{PODS}/bare-0", {"gracePeriodSeconds": 0})
    bench.go_on(lambda: any("left as it is" in problem for problem in bench.problems))
    assert len(_bound(kube, "bare")) == 1  # pods without a controller are never evicted
    kube.admin.delete(f"{PODS}/bare-1", {"gracePeriodSeconds": 0})
    bench.go_on(lambda: bare not in bench.states())
    idle = [name for name in kube.nodes if name not in _bound(kube, "lost")]
    for number in range(2):
        kube.admin.post(PODS, pod(f"foreign{number}", 8, schedulerName="other", nodeName=idle[number]))
    _check_foreign(bench)


def _check_foreign(bench: KubeBench) -> None:
    """A gang that needs all that is free but what the foreign pods have waits until they are gone."""
    kube = bench.kube
    bench.go_on(lambda: bench.runs("default.pod.foreign1"))
    free = 16 - 8 - 2
    wide = bench.submit("wide", free + 1, 8, None)
    bench.go_on(lambda: bench.states().get(wide) == base.QUEUED)
    for _ in range(5):
        bench.cycle()
    assert not bench.runs(wide)
    kube.admin.delete(f"{PODS}/foreign0", {"gracePeriodSeconds": 0})
    bench.go_on(lambda: bench.runs(wide))


def _bound(kube: KubeCluster, gang: str) -> list[str]:
    pods = [one for one in kube.pods() if one["metadata"]["labels"].get("test/gang") == gang]
    return sorted(one["spec"].get("nodeName", "") for one in pods if "deletionTimestamp" not in one["metadata"])


def _machine(bench: KubeBench, node: str) -> str:
    return {one.name: one.state for one in bench.scheduler.roster.snapshot.machines}.get(node, "")


def test_nodes_in_trouble_take_nothing_new(bench: KubeBench) -> None:
    """Cordoned, tainted, not ready: what runs there goes on."""
    kube = bench.kube
    runs = bench.submit("runs", 16, 8, None)
    bench.go_on(lambda: bench.runs(runs))
    changes = [
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "node.kubernetes.io/x", "effect": "NoSchedule"}]}},
    ]
    for name, change in zip(kube.nodes, changes, strict=False):
        kube.admin.patch(f"{NODES}/{name}", change)
    kube.admin.patch(f"{NODES}/{kube.nodes[2]}/status", {"status": {"conditions": [condition("False")]}})
    try:
        bench.go_on(lambda: [_machine(bench, name) for name in kube.nodes[:4]] == [base.DRAINING] * 3 + [base.UP])
        assert bench.runs(runs)
        kube.admin.call("DELETE", f"{JOBS}/runs", {"propagationPolicy": "Background"})
        again = bench.submit("again", 13, 8, None)
        bench.go_on(lambda: bench.runs(again))
        more = bench.submit("more", 1, 8, None)
        bench.go_on(lambda: bench.states().get(more) == base.QUEUED)
        assert not set(_bound(kube, "again")) & set(kube.nodes[:3])
    finally:
        taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
        for name in kube.nodes[:3]:
            kube.admin.patch(f"{NODES}/{name}", {"spec": {"unschedulable": None, "taints": taints}})
            kube.admin.patch(f"{NODES}/{name}/status", {"status": {"conditions": [condition("True")]}})
    bench.go_on(lambda: bench.runs(more))


def test_a_disruption_budget_is_respected(bench: KubeBench) -> None:
    """A pod that a budget keeps is reported, and nothing of its gang is touched."""
    kube = bench.kube
    kept = bench.submit("kept", 4, 8, None)
    bench.go_on(lambda: bench.runs(kept))
    budgets = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
    rule = {"minAvailable": 4, "selector": {"matchLabels": {"test/gang": "kept"}}}
    kube.admin.post(budgets, {"metadata": {"name": "keep"}, "spec": rule})
    time.sleep(0.5)
    with pytest.raises(BackendError, match="stays"):
        bench.backend.preempt_job(kept)
    bench.cycle()
    assert bench.runs(kept)
    assert len(_bound(kube, "kept")) == 4
    kube.admin.delete(f"{budgets}/keep")
    bench.backend.preempt_job(kept)
    bench.go_on(lambda: bench.recorder.binds == 8)


def test_a_stopped_leader_double_books_nothing(kube: KubeCluster, tmp_path: Path) -> None:
    """SIGSTOP in the middle of binding, a takeover, new jobs, SIGCONT: nothing is overbooked for long."""
    recorder = Recorder(kube)
    half = threading.Event()
    with daemon(kube, tmp_path / "first") as first:
        assert first.stdout is not None
        assert b"leads" in first.stdout.readline()
        with daemon(kube, tmp_path / "second", "--policy", "sjf") as second:
            assert second.stdout is not None
            assert b"standing_by" in second.stdout.readline()
            recorder.on_half = lambda _: half.set()
            for number in range(4):
                kube.admin.post(JOBS, job(f"old{number}", 32, 1, None, expected="10h"))
            assert half.wait(30.0)
            os.kill(first.pid, signal.SIGSTOP)
            assert b"leads" in second.stdout.readline()
            for number in range(8):
                kube.admin.post(JOBS, job(f"new{number}", 8, 1, None, expected="1m"))
            until(lambda: sum(bool(one["spec"].get("nodeName")) for one in kube.pods()) >= 120, 40.0)
            os.kill(first.pid, signal.SIGCONT)
            until(lambda: _settled(kube), 40.0)
    recorder.stop()


def _settled(kube: KubeCluster) -> bool:
    """Every GPU is one pod's, and every gang is whole or waits."""
    held: dict[str, int] = {}
    gangs: dict[str, list[str]] = {}
    for one in kube.pods():
        node = one["spec"].get("nodeName", "")
        held[node] = held.get(node, 0) + 1
        gangs.setdefault(one["metadata"]["labels"]["test/gang"], []).append(node)
    fine = all(gpus <= 8 for node, gpus in held.items() if node)
    return (
        fine
        and all(all(nodes) or not any(nodes) for nodes in gangs.values())
        and sum(held.values()) - held.get("", 0) == 128
    )
