"""A Ray cluster: one that runs already, or one on this machine for as long as it takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from dally.errors import InputError
from dally.extras import need
from dally.sweep.workers import Failure, Item, Result, attempt

RETRIES = 3  # of an item whose worker or node died
IN_FLIGHT = 1000  # waiting on all of a million tasks at once would take its time
STORE_BYTES = 100 * 1024 * 1024  # rows are small, and travel without the object store
# Set before anything of Ray starts: no niced workers, no reports to anyone, no endless tries for want of memory.
SETTINGS = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(RETRIES)}


class RayWorkers:
    """One task per item. On a cluster, Dally and the files of the runs must be there on every node."""

    def __init__(self, address: str = "", jobs: int = 0) -> None:
        self.address = address
        self.jobs = jobs  # of a cluster of our own

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | Failure]]:
        """See Workers. Tasks of a node that dies are done again elsewhere."""
        ray = self.connect()
        try:
            task = ray.remote(max_retries=RETRIES)(attempt)
            todo = iter(items)
            sent: dict[Any, Item] = {}
            while True:
                for item in islice(todo, IN_FLIGHT - len(sent)):
                    sent[task.remote(function, item)] = item
                if not sent:
                    return
                done, _ = ray.wait(list(sent))
                yield sent.pop(done[0]), _result(ray, done[0])
        finally:
            ray.shutdown()

    def connect(self) -> Any:
        """Ray, connected to the cluster; the caller shuts it down."""
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        need("ray", "--engine ray")
        import ray

        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address:
            options |= {"address": self.address}
        else:
            options |= {
                "address": "local",
                "num_cpus": self.jobs or None,
                "include_dashboard": False,
                "_node_ip_address": "127.0.0.1",  # or it would listen on the network
                "object_store_memory": STORE_BYTES,
            }
        try:
            ray.init(**options)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"--engine ray --address {self.address or 'local'}: {reason}") from None
        return ray


def _result(ray: Any, reference: Any) -> Any:
    """What the task returned, or how Ray lost it."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return Failure(f"{type(error).__name__}: {str(error).splitlines()[0]}")
