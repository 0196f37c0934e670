"""Pods of a server that knows scheduling gates, in memory: checked against what a real one answered."""

from __future__ import annotations

import copy
import json
from typing import Any

from dally.live.backends.kubernetes.kube_api import JSON_PATCH, Entry, RefusedError


class GatedServer:
    """Takes and refuses patches and bindings of pods as Kubernetes 1.36 does."""

    def __init__(self) -> None:
        self.pods: dict[str, Entry] = {}  # by path

    def insist(
        self, method: str, path: str, body: Any, within_s: float, kind: str = "application/json", left_s: Any = None
    ) -> Entry:
        return self.call(method, path, body, kind)

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Entry:
        pod_path, _, sub = path.partition("/binding")
        del sub
        if pod_path not in self.pods:
            raise RefusedError(path, 404, {"message": "not found"})
        pod = self.pods[pod_path]
        if method == "GET":
            return pod
        if method == "POST":
            return self._bind(pod, body)
        changed = copy.deepcopy(pod)
        apply_steps(changed, body) if kind == JSON_PATCH else merge(changed, body)
        if not may_become(pod["spec"], changed["spec"]):
            raise RefusedError(path, 422, {"message": "invalid"})
        self.pods[pod_path] = changed
        return changed

    def _bind(self, pod: Entry, body: Entry) -> Entry:
        if pod["spec"].get("schedulingGates"):
            raise RefusedError("bind", 409, {"message": "pod has non-empty .spec.schedulingGates"})
        pod["spec"]["nodeName"] = body["target"]["name"]
        pod["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations", {}))
        return {"kind": "Status"}


def may_become(before: Entry, after: Entry) -> bool:
    """Gates may only go; what places a pod may only be added to, and only while it is gated."""
    names = [[gate["name"] for gate in spec.get("schedulingGates") or ()] for spec in (before, after)]
    if not set(names[1]) <= set(names[0]) or before["schedulerName"] != after["schedulerName"]:
        return False
    old, new = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if not names[0]:
        return old == new and before.get("affinity") == after.get("affinity")
    if any(new.get(name) != value for name, value in old.items()):
        return False
    return not before.get("affinity") or before["affinity"] == after.get("affinity")


def apply_steps(entry: Entry, steps: list[Entry]) -> None:
    """A JSON patch."""
    for step in steps:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        here: Any = entry
        for part in way:
            here = here[int(part)] if isinstance(here, list) else here[part]
        key: Any = (len(here) if last == "-" else int(last)) if isinstance(here, list) else last
        if step["op"] == "test":
            if here[key] != step["value"]:
                raise RefusedError("patch", 422, {"message": json.dumps(step)})
        elif step["op"] == "remove":
            del here[key]
        elif isinstance(here, list):
            here.insert(key, step["value"])
        else:
            here[key] = step["value"]


def merge(entry: Entry, change: Entry) -> None:
    """A merge patch."""
    for name, value in change.items():
        if value is None:
            entry.pop(name, None)
        elif isinstance(value, dict) and isinstance(entry.get(name), dict):
            merge(entry[name], value)
        else:
            entry[name] = value
