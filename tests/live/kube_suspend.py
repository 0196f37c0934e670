"""A server that knows `suspend` of Jobs, before one that does not and keeps such a Job as one of no pods at a time.

To the 1.20 behind it, `suspend: true` is `parallelism: 0`, and the number of pods an annotation: its own controller
deletes the pods of such a Job, and makes them once it has its number again, as later ones do for `suspend`.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from dally.live.backends.kubernetes.kube_api import Entry
from tests.live.kube_cluster import KubeCluster, job
from tests.live.kube_proxy import Exchange, FaultyProxy

NUMBER: Final = "test/parallelism"  # annotation: pods of a Job that is suspended,
HELD_UP: Final = "test/held-up"  # or that its controller has yet to see
JOBS: Final = re.compile(r"/apis/batch/v1(/namespaces/[^/]+)?/jobs(/[^/?]+)?(\?.*)?")


def suspended_job(name: str, pods: int, gpus: int, seconds: float | None, **notes: str) -> Entry:
    """As the server behind keeps it."""
    body = job(name, pods, gpus, seconds, **notes)
    body["metadata"]["annotations"] = {NUMBER: str(pods)}
    body["spec"]["parallelism"] = 0
    return body


def is_suspended(entry: Entry) -> bool:
    """Of a Job as the server behind keeps it."""
    return NUMBER in (entry["metadata"].get("annotations") or {})


def as_new(entry: Entry) -> Entry:
    """A Job as a server that knows `suspend` tells of it."""
    result = copy.deepcopy(entry)
    notes = result["metadata"].get("annotations") or {}
    result["spec"]["suspend"] = NUMBER in notes
    for name in (NUMBER, HELD_UP):
        if name in notes:
            result["spec"]["parallelism"] = int(notes.pop(name))
    return result


def as_kept(change: Entry, there: Entry, held_up: bool) -> Entry:
    """A change of a Job in the words of the server behind; `held_up`: its controller does not see it yet."""
    result = copy.deepcopy(change)
    suspend = result.get("spec", {}).pop("suspend", None)
    notes = result.setdefault("metadata", {}).setdefault("annotations", {})
    present = there["metadata"].get("annotations") or {}
    if suspend is False and NUMBER in present:
        notes[NUMBER] = None
        if held_up:
            notes[HELD_UP] = present[NUMBER]
        else:
            result["spec"]["parallelism"] = int(present[NUMBER])
    elif suspend is True and NUMBER not in present:
        notes[NUMBER] = present.get(HELD_UP, str(there["spec"]["parallelism"]))
        notes[HELD_UP] = None
        result["spec"]["parallelism"] = 0
    return result


class SuspendExchange(Exchange):
    """Translates what is said of Jobs."""

    proxy: SuspendProxy

    def request_body(self, body: bytes | None, headers: dict[str, str]) -> bytes | None:
        if self.command != "PATCH" or body is None or not JOBS.fullmatch(self.path):
            return body
        answer = self.proxy.pool.request("GET", self.proxy.upstream + self.path, headers=headers)
        there = json.loads(answer.data)
        if there["kind"] != "Job":
            return body  # it is gone: the server says so once more
        return json.dumps(as_kept(json.loads(body), there, self.proxy.held_up)).encode()

    def answer_body(self, data: bytes) -> bytes:
        if not JOBS.fullmatch(self.path):
            return data
        answer = json.loads(data)
        if answer.get("kind") == "JobList":
            return json.dumps({**answer, "items": [as_new(one) for one in answer["items"]]}).encode()
        return json.dumps(as_new(answer)).encode() if answer.get("kind") == "Job" else data

    def parts(self, answer: Any) -> Iterator[bytes]:
        rest = b""
        for part in super().parts(answer):
            if not JOBS.fullmatch(self.path):
                yield part
                continue
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["object"].get("kind") == "Job" and event["type"] != "BOOKMARK":
                    event["object"] = as_new(event["object"])
                yield json.dumps(event).encode() + b"\n"


class SuspendProxy(FaultyProxy):
    """Knows `suspend`; `config` leads to it."""

    exchange = SuspendExchange
    held_up = False  # whether the controller of Jobs does not see what is admitted

    def go_on(self, kube: KubeCluster, name: str) -> None:
        """It sees that Job."""
        self.held_up = False
        path = f"/apis/batch/v1/namespaces/default/jobs/{name}"
        number = kube.admin.get(path)["metadata"]["annotations"].get(HELD_UP)
        if number is not None:
            about = {"annotations": {HELD_UP: None}}
            kube.admin.patch(path, {"metadata": about, "spec": {"parallelism": int(number)}})


def knowing_suspend(kube: KubeCluster, proxy: FaultyProxy) -> KubeCluster:
    """The same cluster; its backends speak with the proxy."""
    result = copy.copy(kube)
    result.config = str(proxy.config)
    return result
