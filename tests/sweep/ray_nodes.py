"""Sweeps on Ray, for test_ray.py, which runs this where there is only loopback. Prints JSON.

usage: python -m tests.sweep.ray_nodes killed FOLDER    two nodes, one is killed on the way
       python -m tests.sweep.ray_nodes alone            a cluster of Dally's own
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from dally.sweep.workers import Failure
from dally.sweep.workers.ray import SETTINGS, RayWorkers
from tests.sweep import worker_functions
from tests.sweep.sweeping import kept, start, wait_for

STORE_BYTES = 80 * 1024 * 1024
KILL_AT = 20
LISTENING = "0A"  # in /proc/net/tcp


def killed(folder: Path) -> dict[str, Any]:
    """A sweep on two nodes that loses one; then items that fail on the node that is left."""
    from ray.cluster_utils import Cluster

    options: dict[str, Any] = {
        "num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False,
        "node_ip_address": "127.0.0.1",
    }  # fmt: skip
    cluster: Any = Cluster(initialize_head=True, head_node_args=options)
    try:
        second = cluster.add_node(**options)
        cluster.wait_for_nodes()
        running = start(folder, "ray", "--engine", "ray", "--address", cluster.address)
        wait_for(folder / "ray", KILL_AT, running)
        raylet = second.all_processes["raylet"][0].process.pid
        while not (at_work := workers_of(raylet)) and running.poll() is None:
            time.sleep(0.01)  # on a busy machine the first node may be well ahead
        cluster.remove_node(second, allow_graceful=False)
        left = kept(folder / "ray")
        output = running.communicate(timeout=120)[0]
        failing = {
            name: results(RayWorkers(cluster.address).map(function, range(1, 4)))
            for name, function in (("fussy", worker_functions.fussy), ("deadly", worker_functions.deadly))
        }
    finally:
        cluster.shutdown()
    return {"at_work": at_work, "left": left, "code": running.returncode, "output": output, **failing}


def workers_of(raylet: int) -> int:
    """How many workers the node has."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            command = (path.parent / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += parent == raylet and command.startswith((b"ray::attempt", b"ray::IDLE"))
    return found


def alone() -> dict[str, Any]:
    """A cluster of Dally's own: what it listens on, and how nice its workers are."""
    pairs = RayWorkers(jobs=1).map(worker_functions.niceness, [1])
    first = next(pairs)  # the cluster is up until the next one is asked for
    addresses = sorted(listening())
    return {"addresses": addresses, "niceness": results([first, *pairs])}


def results(pairs: Any) -> dict[str, Any]:
    return {str(item): found.reason if isinstance(found, Failure) else found for item, found in pairs}


def listening() -> set[str]:
    """Addresses that sockets of this network namespace listen on, as the kernel writes them."""
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    fields = [line.split() for line in lines]
    return {field[1].partition(":")[0] for field in fields if field[3] == LISTENING}


def main() -> None:
    os.environ["RAY_AUTH_MODE"] = "disabled"  # or it would leave a token in the home folder
    if sys.argv[1] != "alone":
        os.environ |= SETTINGS
    found = alone() if sys.argv[1] == "alone" else killed(Path(sys.argv[2]))
    print("RESULT", json.dumps(found))


if __name__ == "__main__":
    main()
