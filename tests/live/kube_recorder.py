"""An independent watch of all pods: who had which GPUs at every version, and how long a gang was half there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dally.live.backends.base import BackendError, Placement
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi, RefusedError
from tests.live.kube_cluster import PODS, KubeCluster

GANG = "test/gang"  # a label that no controller writes and the scheduler does not read
SIZE = "test/size"


def gpus_of(pod: Entry) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", 0))


class Recorder:
    """Looks from its start to `stop`. It knows labels of the tests only, nothing of the scheduler's."""

    def __init__(self, kube: KubeCluster, gpus: int = 8) -> None:
        self.problems: list[str] = []
        self.binds = 0
        self.half_s: dict[str, float] = {}  # by gang: the longest it was half bound
        self.on_half: Callable[[str], None] = lambda _: None  # called when a gang is bound in part
        self.runs: dict[str, list[dict[str, str]]] = {}  # by gang: pods and their nodes, run by run,
        self.due: dict[str, list[int]] = {}  # and how many of its pods had not succeeded before each
        self._broken: set[str] = set()  # gangs of which a pod of the latest run went before its end
        self._gpus = gpus
        self._pods: dict[str, Entry] = {}
        self._since: dict[str, float] = {}
        self._sizes: dict[str, int] = {}  # GPUs by pod
        self._stop = threading.Event()
        self._api = KubeApi(kube.config, "admin")
        self._version = self._api.get(PODS)["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                for event in self._api.watch(PODS, self._version, 2, self._stop):
                    entry = event["object"]
                    self._version = entry["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._see(entry, event["type"] == "DELETED")
            except BackendError as error:
                time.sleep(0.1)
                if isinstance(error, RefusedError) and error.code == 410:
                    with suppress(BackendError):  # the server may be gone again; the next watch says 410 too
                        self._list()

    def _list(self) -> None:
        """A new server does not know what was before it."""
        found = self._api.get(PODS)
        here = {entry["metadata"]["uid"] for entry in found["items"]}
        for entry in [entry for uid, entry in self._pods.items() if uid not in here]:
            self._see(entry, True)
        for entry in found["items"]:
            self._see(entry, False)
        self._version = found["metadata"]["resourceVersion"]
        for node in {entry["spec"].get("nodeName", "") for entry in found["items"]} - {""}:
            self._check_node(node)

    def _see(self, entry: Entry, gone: bool) -> None:
        uid, gang = entry["metadata"]["uid"], _label(entry, GANG)
        node = entry["spec"].get("nodeName", "")
        before = self._pods.get(uid)
        if gone:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = entry
        if node and before is not None and not before["spec"].get("nodeName"):
            self.binds += 1
            self._run_of(gang, int(_label(entry, SIZE) or 1))[uid] = node
            self._sizes[uid] = gpus_of(entry)
            self._check_node(node)
        going = gone or "deletionTimestamp" in entry["metadata"]
        if going and _phase(entry) != "Succeeded" and any(uid in run for run in self.runs.get(gang, [])[-1:]):
            self._broken.add(gang)
        if before is not None and before["spec"].get("nodeName", node) != node:
            self.problems.append(f"{entry['metadata']['name']} moved to {node}")
        self._check_gang(gang)

    def _run_of(self, gang: str, size: int) -> dict[str, str]:
        """The run of a gang that a pod bound now belongs to: another one once the last was whole or fell apart."""
        runs, due = self.runs.setdefault(gang, []), self.due.setdefault(gang, [])
        if not runs or len(runs[-1]) == due[-1] or gang in self._broken:
            self._broken.discard(gang)
            there = [pod for pod in self._pods.values() if gang and _label(pod, GANG) == gang]
            runs.append({})
            due.append(size - sum(_phase(pod) == "Succeeded" for pod in there))
        return runs[-1]

    def _check_node(self, node: str) -> None:
        """A GPU is its pod's until that has ended or is gone."""
        held = sum(
            gpus_of(pod) for pod in self._pods.values() if pod["spec"].get("nodeName") == node and _lives(pod)
        )
        if held > self._gpus:
            self.problems.append(f"{held} GPUs given on {node} at version {self._version}")

    def _check_gang(self, gang: str) -> None:
        pods = [pod for pod in self._pods.values() if gang and _label(pod, GANG) == gang]
        staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        bound = [pod for pod in staying if pod["spec"].get("nodeName")]
        done = [pod for pod in bound if not _lives(pod)]
        size = int(_label(pods[0], SIZE) or 1) if pods else 0
        now = time.monotonic()
        if bound and len(done) < len(bound) < size:
            self._since.setdefault(gang, now)
            self.on_half(gang)
        elif gang in self._since:
            self.half_s[gang] = max(self.half_s.get(gang, 0.0), now - self._since.pop(gang))

    def placements(self, gang: str) -> list[Placement]:
        """GPUs by node of each run that was bound whole."""
        found = []
        for run in self.runs.get(gang, []):
            placement: Placement = {}
            for uid, node in run.items():
                placement[node] = placement.get(node, 0) + self._sizes[uid]
            found.append(placement)
        return found

    def stop(self) -> dict[str, Any]:
        """End, once everything up to now is seen; what was found."""
        time.sleep(0.3)
        self._stop.set()
        self._thread.join(5)
        self._api.close()
        now = time.monotonic()
        for gang, since in self._since.items():
            self.half_s[gang] = max(self.half_s.get(gang, 0.0), now - since)
        return {"binds": self.binds, "half_s": max(self.half_s.values(), default=0.0), "problems": self.problems}


def _label(pod: Entry, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(name, ""))


def _phase(pod: Entry) -> str:
    return str((pod.get("status") or {}).get("phase"))


def _lives(pod: Entry) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
