"""Scheduling gates (Kubernetes 1.27 and later): a pod waits behind ours; we pin it and open it.

A gated pod's node selector may only be added to, and only while it is gated, so one patch does both.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.pod_record import PodRecord

SINCE: Final = (1, 27)  # older servers drop them without a word
HOST: Final = "kubernetes.io/hostname"


def version_of(record: Entry) -> tuple[int, int]:
    """Major and minor; clouds write 27+."""
    numbers = [re.match(r"[0-9]+", str(record.get(part, ""))) for part in ("major", "minor")]
    major, minor = (int(number.group()) if number else 0 for number in numbers)
    return major, minor


def open_patch(pod: PodRecord, notes: dict[str, str], host: str) -> list[dict[str, Any]]:
    """A JSON patch: this very pod, with the notes, pinned to the host if there is one, and without our gate."""
    steps: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": pod.uid}]
    if not pod.noted:
        steps.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    for name, value in notes.items():
        steps.append({"op": "add", "path": f"/metadata/annotations/{name.replace('/', '~1')}", "value": value})
    if host:
        labels = {**(pod.selector.get("labels") or {}), HOST: host}
        steps.append({"op": "add", "path": "/spec/nodeSelector", "value": labels})
    if names.GATE in pod.gates:
        at = pod.gates.index(names.GATE)
        steps.append({"op": "test", "path": f"/spec/schedulingGates/{at}/name", "value": names.GATE})
        steps.append({"op": "remove", "path": "/spec/schedulingGates" + (f"/{at}" if len(pod.gates) > 1 else "")})
    return steps
