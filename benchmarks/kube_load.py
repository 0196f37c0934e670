"""The Kubernetes backend under load, on a real API server: CPU of a cycle, pods bound a second, memory.

usage: python -m benchmarks.kube_load [--nodes 1000] [--gangs 3500] [--pods 8000] [--seconds 60]
                                      [--quiet-seconds 30]

Needs the bundle ../shared/kubernetes. Nodes have 8 GPUs, pods ask for 8 and end after 20 to 60 s, so that gangs
start all the time. With the defaults more than 2,000 gangs of 5,000 pods wait throughout. CPU is that of the whole
process: watches, books, policy, store, bindings; the kubelet is another process. Before the kubelet begins, nothing
changes: `--quiet-seconds` of cycles are taken once all is told, and their requests to the server are counted. The
lease of a daemon takes 1.33 more a second.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.live.kube_cluster import BUNDLE, PODS, KubeCluster, kube_cluster, pod, until

from benchmarks.command_line import options
from dally.live.backends.base import BackendError, StartOrder
from dally.live.backends.kubernetes import KubeOptions, KubernetesBackend
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi
from dally.live.config import Setup
from dally.live.cycle import CycleResult, Scheduler
from dally.live.garbage import collect
from dally.live.publication import publication_of
from dally.live.status import ClusterStatus, status_of
from dally.live.store import open_store
from dally.live.wall_clock import WallClock
from dally.report.explanation.waiting import WaitRecords

THREADS = 8


def main() -> None:
    given = options(__doc__, nodes=1000, gangs=3500, pods=8000, seconds=60.0, quiet_seconds=30.0)
    with (
        tempfile.TemporaryDirectory(prefix="dally-kube-load-") as folder,
        kube_cluster(Path(folder), given.nodes, controllers=False) as kube,
    ):
        kube.kubelet.stop()
        measure_server(kube)
        load(kube, Path(folder), given)


def measure_server(kube: KubeCluster) -> None:
    """What the server takes: bindings by eight threads that do nothing else, while it tells one watch of them."""
    api = KubeApi(kube.config, "dally")
    names = [f"raw-{number}" for number in range(1000)]

    def bind(name: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": kube.nodes[0]}
        api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda name: kube.admin.post(PODS, pod(name, schedulerName="none")), names))
        version = kube.admin.get(PODS, limit=1)["metadata"]["resourceVersion"]
        events = api.watch("/api/v1/pods", version, 60, threading.Event())
        threading.Thread(target=drain, args=(events,), daemon=True).start()
        began_s = time.monotonic()
        list(pool.map(bind, names))
        print(f"server alone: {1000 / (time.monotonic() - began_s):.0f} pods bound a second by {THREADS} threads")
    api.close()
    kube.admin.call("DELETE", PODS, {"gracePeriodSeconds": 0})


def drain(events: Iterator[Entry]) -> None:
    """Read what a watch tells, until it is closed."""
    with suppress(BackendError):
        deque(events, 0)


def submit(kube: KubeCluster, gangs: int, pods: int) -> None:
    """So many gangs of one to eight pods, that many pods in all."""
    chance = random.Random(1)
    made = []
    for number, size in enumerate(sizes_of(gangs, pods)):
        labels = {"dally.io/gang": f"g{number}", "dally.io/gang-size": str(size)}
        notes = {"dally.io/model": "resnet50", "dally.io/expected": "600"}
        seconds = chance.uniform(20.0, 60.0)
        made += [pod(f"g{number}-{at}", 8, seconds, labels=labels, notes=notes) for at in range(size)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda one: kube.admin.post(PODS, one), made))


def sizes_of(gangs: int, pods: int) -> list[int]:
    """Of one to eight pods each, that many in all."""
    chance = random.Random(2)
    result = [1] * gangs
    for _ in range(pods - gangs):
        result[_one(result, chance)] += 1
    return result


def _one(sizes: list[int], chance: random.Random) -> int:
    while True:
        at = chance.randrange(len(sizes))
        if sizes[at] < 8:
            return at


class Timed(KubernetesBackend):
    """Knows how long it took to bind."""

    spent_s = 0.0
    requests = 0

    def count_requests(self) -> None:
        """From now on."""
        plain = self.api.call

        def counted(*parts: Any, **more: Any) -> Any:
            self.requests += 1
            return plain(*parts, **more)

        self.api.call = counted  # type: ignore[method-assign]

    def start(self, orders: Sequence[StartOrder], term: int) -> list[str]:
        began_s = time.monotonic()
        found = super().start(orders, term)
        self.spent_s += time.monotonic() - began_s
        return found


def load(kube: KubeCluster, folder: Path, given: argparse.Namespace) -> None:
    """Cycle after cycle for so long."""
    submit(kube, given.gangs, given.pods)
    backend = Timed(KubeOptions(kubeconfig=kube.config, context="dally"))
    store = open_store(f"sqlite:///{folder}/dally.db")
    until(lambda: is_listed(backend), 120.0)
    scheduler = Scheduler(backend, backend.topology(), Setup("dally"), store, WallClock(time.time()))
    cpu_s = time.process_time()
    bound = pods_of(scheduler.run_cycle())
    print(f"first cycle: {bound} of {given.pods} pods bound in {backend.spent_s:.1f} s, "
          f"{bound / backend.spent_s:.0f} a second; {time.process_time() - cpu_s:.1f} s CPU in all")  # fmt: skip
    if given.quiet_seconds:
        quiet(scheduler, backend, given.quiet_seconds, given.pods - bound)
    kubelet = subprocess.Popen([sys.executable, str(BUNDLE / "fakekubelet.py"), kube.config])
    try:
        cycles(scheduler, backend, given.seconds, "under load")
    finally:
        kubelet.kill()
        kubelet.wait()
    backend.close()
    store.close()


def is_listed(backend: KubernetesBackend) -> bool:
    """Whether it has its first copy of the cluster; a daemon that leads waits for that."""
    try:
        backend.topology()
    except BackendError:
        return False
    return True


def quiet(scheduler: Scheduler, backend: Timed, seconds: float, waiting: int) -> None:
    """While nothing changes: what a cycle takes, and how often the server is asked for something."""
    backend.count_requests()
    while True:  # until all that is new is told, to each pod that waits a condition and an event
        before = backend.requests
        cycles(scheduler, backend, 10.0, "telling what is new")
        if before > waiting and backend.requests - before < 50:
            break
    before, began_s = backend.requests, time.monotonic()
    cycles(scheduler, backend, seconds, "quiet")
    rate = (backend.requests - before) / (time.monotonic() - began_s)
    print(f"quiet: {rate:.2f} requests a second besides the lease's 1.33")


def pods_of(result: CycleResult) -> int:
    """Pods that were started in a cycle, each on a node of its own."""
    return sum(len(row["placement"] or {}) for row in result.log if row["kind"] == "start")


def cycles(scheduler: Scheduler, backend: KubernetesBackend, seconds: float, what: str) -> None:
    """As the daemon takes them; what they took."""
    reasons = WaitRecords(scheduler.roster.topology.tiers)
    cpus: list[float] = []
    sizes: list[float] = []
    started = 0
    status = ClusterStatus()
    until_s = time.monotonic() + seconds
    collect()  # as the daemon does between cycles
    while time.monotonic() < until_s:
        cpu_s = time.process_time()
        result = scheduler.run_cycle()
        reasons.learn(result.decisions)
        status = status_of(scheduler, reasons, result, len(cpus), status)
        backend.publish(publication_of(status, result.log, lambda _: ""))
        backend.wait(1.0)
        cpus.append(time.process_time() - cpu_s)
        sizes.append(_rss_mb())
        started += pods_of(result)
    waiting = sum(line.state == "waiting" for line in status.jobs)
    cpus.sort()
    third = max(1, len(sizes) // 3)
    print(f"{what}: {len(cpus)} cycles, {started} more pods started, {waiting} gangs wait at the end")
    slow_s = cpus[int(len(cpus) * 0.99)]
    print(f"CPU of a cycle: p50 {cpus[len(cpus) // 2]:.2f} s, p99 {slow_s:.2f} s, most {cpus[-1]:.3f} s")
    print(f"memory: {max(sizes[:third]):.0f} MB in the first third, {max(sizes[-third:]):.0f} MB in the last")


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main()
