"""Jobs that wait suspended: no pods before the whole gang has a place, and none left when it has to go back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import suspended_jobs
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi
from dally.live.backends.kubernetes.leader import Leader
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import GangKey
from dally.live.backends.kubernetes.suspended_jobs import MOST_PODS, SuspendedJobs
from dally.live.config import Setup
from dally.live.reconcile import orders
from tests.live.kube_bench import KubeBench
from tests.live.kube_cluster import JOBS, KubeCluster, until
from tests.live.kube_suspend import SuspendProxy, as_new, is_suspended, knowing_suspend, suspended_job


@pytest.fixture
def proxy(kube: KubeCluster) -> Iterator[SuspendProxy]:
    result = SuspendProxy(kube.config, 1)
    yield result
    result.close()


@pytest.fixture
def suspending(kube: KubeCluster, proxy: SuspendProxy) -> KubeCluster:
    """A cluster that knows `suspend`."""
    return knowing_suspend(kube, proxy)


class SuspendBench(KubeBench):
    """Submits suspended Jobs."""

    def __init__(self, kube: KubeCluster, folder: Path) -> None:
        super().__init__(kube, folder, Setup("fifo-backfill"), suspend=True)

    def submit(self, name: str, pods: int, gpus: int, seconds: float | None, **notes: str) -> str:
        self.kube.admin.post(JOBS, suspended_job(name, pods, gpus, seconds, model="resnet50", **notes))
        self.submitted.append(f"default.job.{name}")
        return self.submitted[-1]

    def another_daemon(self) -> None:
        """The present one has died; the next has its store."""
        self.backend.close()
        self.backend = self._backend = self.kube.backend(events=False, suspend=True)
        self.begin()

    def suspended(self, name: str) -> bool:
        """As the server has it."""
        return is_suspended(self.kube.admin.get(f"{JOBS}/{name}"))

    def pods_of(self, name: str) -> list[Entry]:
        return [one for one in self.kube.pods() if one["metadata"]["labels"].get("job-name") == name]


def test_jobs_wait_without_pods(suspending: KubeCluster, tmp_path: Path) -> None:
    """The second needs the GPUs of the first; both come to their end, whole, on the planned nodes."""
    bench = SuspendBench(suspending, tmp_path)
    first, second = bench.submit("a", 8, 8, 3.0), bench.submit("b", 16, 8, 1.0)
    bench.go_on(lambda: bench.runs(first))
    assert bench.states()[second] == base.QUEUED
    assert (bench.suspended("a"), bench.suspended("b")) == (False, True)
    assert not bench.pods_of("b")
    ours = suspending.admin.get(f"{JOBS}/a")
    assert "dally.io/admitted" in ours["metadata"]["annotations"]
    bench.go_on(bench.ended)
    assert not bench.events("start_failed", "evict")
    assert bench.close()["binds"] == 24


def test_preempted_by_suspension(suspending: KubeCluster, tmp_path: Path) -> None:
    """Its pods go, their controller makes no others, and it runs again from the queue."""
    bench = SuspendBench(suspending, tmp_path)
    job_id = bench.submit("a", 4, 8, 2.0)
    bench.go_on(lambda: bench.runs(job_id))
    bench.backend.preempt_job(job_id)
    assert bench.suspended("a")
    until(lambda: not bench.pods_of("a"))
    bench.go_on(lambda: bench.states().get(job_id) in (base.QUEUED, base.STARTING))
    bench.go_on(bench.ended)
    assert bench.close()["binds"] == 8


def test_pods_that_do_not_come(
    suspending: KubeCluster, proxy: SuspendProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their Job is suspended again and left alone for a while; another daemon finds it as it was left."""
    bench = SuspendBench(suspending, tmp_path)
    job_id = bench.submit("a", 4, 8, 0.5)
    proxy.held_up = True
    bench.go_on(lambda: bench.states().get(job_id) == base.STARTING)
    assert not bench.suspended("a")
    monkeypatch.setattr(time, "monotonic", later(suspended_jobs.COME_WITHIN_S + 1.0))
    bench.go_on(lambda: bench.suspended("a"))
    bench.go_on(lambda: bench.states().get(job_id) == base.HELD)
    assert "did not come" in next(job.reason for job in bench.scheduler.roster.snapshot.jobs)
    monkeypatch.undo()
    proxy.held_up = False
    bench.another_daemon()
    bench.go_on(bench.ended)
    bench.close()


def later(by_s: float) -> Any:
    """A clock that is ahead."""
    plain = time.monotonic
    return lambda: plain() + by_s


def test_a_daemon_that_dies_after_admitting(
    suspending: KubeCluster, proxy: SuspendProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one carries out what the store has: the pods are bound where they were to go."""
    bench = SuspendBench(suspending, tmp_path)
    job_id = bench.submit("a", 4, 8, 1.0)
    proxy.held_up = True
    bench.go_on(lambda: bench.states().get(job_id) == base.STARTING)
    bench.another_daemon()
    bench.cycle()
    monkeypatch.setattr(orders, "SEND_AGAIN_S", 0.5)
    proxy.go_on(suspending, "a")
    bench.go_on(bench.ended)
    assert len(bench.events("start")) == 1
    assert not bench.events("start_failed", "evict", "cancel")
    assert bench.close()["binds"] == 4


# Without a server.


def books(api: Any) -> tuple[PodLedger, SuspendedJobs]:
    ledger = PodLedger(threading.Event(), lambda pod: pod.scheduler == "dally", lambda *_: False, "dally")
    return ledger, SuspendedJobs(cast(KubeApi, api), ledger, lambda pod: pod.scheduler == "dally", dict)


def entry(name: str, pods: int, **spec: Any) -> Entry:
    result = as_new(suspended_job(name, pods, 8, None))
    result["metadata"].update(namespace="default", uid=f"uid-{name}", creationTimestamp="2026-11-16T10:00:00Z")
    result["spec"].update(spec)
    return result


def test_only_what_is_ours_is_admitted() -> None:
    """Not what runs, has ended or goes, not other schedulers' Jobs, and of a JobSet's the JobSet says."""
    ledger, jobs = books(Mock())
    of_others, of_a_set = entry("others", 2), entry("set", 2)
    of_others["spec"]["template"]["spec"]["schedulerName"] = "default-scheduler"
    of_a_set["spec"]["template"]["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = "s"
    over = {**entry("over", 2), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    for one in (entry("mine", 2), entry("runs", 2, suspend=False), of_others, of_a_set, over):
        jobs.put(one)
    shown = {name: len(ledger.gang(GangKey("default", "job", name))) for name in ("mine", "runs", "others", "over")}
    assert shown == {"mine": 2, "runs": 0, "others": 0, "over": 0}
    assert not ledger.gang(GangKey("default", "jobset", "s"))
    jobs.put(entry("mine", 2, suspend=False))  # by its user: its controller makes the pods
    assert not ledger.gang(GangKey("default", "job", "mine"))
    forged = entry("forged", 2)
    forged["metadata"]["annotations"] = {"dally.io/admitted": "9" * 400}
    forged["spec"]["template"]["spec"]["nodeName"] = "n01"
    forged["spec"]["template"]["metadata"]["annotations"] = {"dally.io/node": "n01", "dally.io/placement": "n01=8"}
    for suspended in (True, False):
        forged["spec"]["suspend"] = suspended
        with suppress(OverflowError):
            jobs.put(forged)
        assert not any(pod.node or pod.pinned for pod in ledger.gang(GangKey("default", "job", "forged")))
    jobs.put(entry("huge", 10**9))
    assert len(ledger.gang(GangKey("default", "job", "huge"))) == 1
    jobs.put(entry("large", MOST_PODS))
    jobs.only([])
    assert not ledger.gang(GangKey("default", "job", "large"))


def test_fenced() -> None:
    """A daemon whose term has passed neither admits nor suspends."""
    api, leader = Mock(), Mock(spec=Leader)
    leader.left_s.return_value, leader.term = 4.0, 2
    ledger, jobs = books(api)
    jobs.put(entry("a", 1))
    api.insist.side_effect = lambda *parts, **_: parts[-1]()
    old, key = Fence(leader, 1), GangKey("default", "job", "a")
    with pytest.raises(BackendError, match="decided in term 1"):
        jobs.admit(key, {"n1": 8}, old)
    assert "decided in term 1" in jobs.send_back(ledger.gang(key), old)[0]
    api.call.assert_not_called()
