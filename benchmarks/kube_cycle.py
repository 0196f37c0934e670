"""CPU of a cycle on Kubernetes while nothing changes, without a server: books, policy, store, status, conditions.

usage: python -m benchmarks.kube_cycle [--nodes 1000] [--gangs 3000] [--pods 7000] [--cycles 10]

Nodes have 8 GPUs, pods ask for 8; records of all of them are put into the backend's copies as its watches do. The
policy fills the cluster in the first cycle, and the starts are taken at once. Of the later cycles, the CPU time of
the thread that runs them is printed. `python -m benchmarks.kube_load` measures the same on a real API server.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import structlog
from tests.live.kube_cluster import condition, pod

from benchmarks.command_line import options
from benchmarks.kube_load import sizes_of
from dally.live.backends.base import StartOrder
from dally.live.backends.kubernetes import KubeOptions, KubernetesBackend, kubernetes_backend
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.daemon import Daemon
from dally.live.garbage import collect
from dally.live.store import open_store
from dally.live.wall_clock import WallClock

Entry = dict[str, Any]
CREATED = "2026-11-16T10:00:00Z"


class RecordedCluster(KubernetesBackend):
    """A backend whose copies are filled by hand. What it starts is bound at once."""

    def __init__(self) -> None:
        with patch.object(kubernetes_backend, "KubeApi", lambda *_: Mock(host="none")):
            super().__init__(KubeOptions(kubeconfig="none", priorities=False))
        self._open = True
        for mirror in self.mirrors:
            mirror.trouble, mirror.lists = "", 1

    def start(self, orders: Sequence[StartOrder], term: int) -> list[str]:
        """Every pod is where it is to go."""
        for job_id, placement in orders:
            pods, nodes = self._seats(self._gangs.find(job_id), placement)
            for one, node in zip(pods, nodes, strict=True):
                self.ledger.bound(one, node, {})
        return [""] * len(orders)


def node(number: int) -> Entry:
    """Four machines in a rack, 16 racks under a spine."""
    labels = {
        "kubernetes.io/hostname": f"n{number}",
        "network.topology.nvidia.com/spine": f"s{number // 64}",
        "network.topology.nvidia.com/leaf": f"r{number // 4}",
    }
    room = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    status = {"capacity": room, "allocatable": room, "conditions": [condition("True")]}
    return {"metadata": {"name": f"n{number}", "labels": labels}, "spec": {}, "status": status}


def pods_of(gang: int, size: int) -> list[Entry]:
    """So many pods in a gang by its label."""
    labels = {"dally.io/gang": f"g{gang}", "dally.io/gang-size": str(size)}
    notes = {"dally.io/model": "resnet50", "dally.io/expected": "600"}
    result = [pod(f"g{gang}-{rank}", 8, labels=labels, notes=notes) for rank in range(size)]
    for one in result:
        name = one["metadata"]["name"]
        one["metadata"].update(uid=name, namespace="default", creationTimestamp=CREATED)
    return result


def main() -> None:
    given = options(__doc__, nodes=1000, gangs=3000, pods=7000, cycles=10)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    backend = RecordedCluster()
    began_s = time.process_time()
    for number in range(given.nodes):
        backend.nodes.put(node(number))
    for gang, size in enumerate(sizes_of(given.gangs, given.pods)):
        for one in pods_of(gang, size):
            backend.ledger.put(one)
    print(f"records of {given.nodes} nodes and {given.pods} pods: {time.process_time() - began_s:.1f} s CPU")
    with tempfile.TemporaryDirectory(prefix="dally-kube-cycle-") as folder:
        store = open_store(f"sqlite:///{Path(folder)}/dally.db")
        clock = WallClock(time.time())
        daemon = Daemon(backend, lambda: Scheduler(backend, backend.topology(), Setup("dally"), store, clock))
        spent_s: list[float] = []
        daemon.watchers.append(lambda _, cpu_s: spent_s.append(cpu_s))
        for number in range(given.cycles + 2):
            if number == 2:
                collect()  # as the daemon does between cycles
            daemon.run_cycle()
        backend.close()
        store.close()
    print(f"first cycle, which fills the cluster: {spent_s[0]:.2f} s CPU")
    quiet_s = sorted(spent_s[2:])
    waiting = sum(line.state == "waiting" for line in daemon.status.jobs)
    print(f"{waiting} gangs wait: CPU of a cycle p50 {quiet_s[len(quiet_s) // 2]:.3f} s, most {quiet_s[-1]:.3f} s")


if __name__ == "__main__":
    main()
