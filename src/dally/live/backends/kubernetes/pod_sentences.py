"""Events and conditions as users of Kubernetes know them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple

from dally.live.backends.base import Placement
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.node_requests import UNSCHEDULABLE
from dally.live.backends.kubernetes.pod_record import PodRecord

LONGEST = 900  # of a message; the server takes 1024
SHOWN = 8  # machines by name


class Sentences(NamedTuple):
    """What to tell of a pod: an event, a condition, or both."""

    reason: str
    text: str
    warning: bool = False
    event: bool = True
    condition: str = ""  # its status, if there is one
    about: str = ""  # the condition's reason
    scheduled: str = UNSCHEDULABLE  # the reason of PodScheduled while it waits

    @classmethod
    def waiting(cls, about: str, text: str, event: bool, scheduled: str = UNSCHEDULABLE) -> Sentences:
        """It waits; why, and until when."""
        return cls("FailedScheduling", text, True, event, "False", about, scheduled)

    @classmethod
    def placed(cls, tier: str, placement: Placement) -> Sentences:
        """It goes to these machines."""
        named = list(placement)
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        return cls(
            "Scheduled", f"gang on one {tier}: {', '.join(named[:SHOWN])}{more}", condition="True", about=tier
        )

    @classmethod
    def preempted(cls, winner: str) -> Sentences:
        """It gives way."""
        return cls("Preempted", f"Preempted by {winner}")


def event_body(pod: PodRecord, parts: Sentences, scheduler: str) -> dict[str, Any]:
    """The event, about this very pod."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = parts.text
    if parts.reason == "Scheduled":
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node}; {text}"
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{pod.name}.{uuid.uuid4().hex[:16]}"},
        "involvedObject": {"namespace": pod.namespace, **_object(pod)},
        "reason": parts.reason, "message": text[:LONGEST], "type": "Warning" if parts.warning else "Normal",
        "source": {"component": scheduler}, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    }  # fmt: skip


def _object(pod: PodRecord) -> dict[str, str]:
    """What an event is about: the pod, or the Job that has yet to make it."""
    if pod.placeholder and pod.owner is not None:
        return dict(zip(("apiVersion", "kind", "name", "uid"), pod.owner, strict=True))
    return {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}


def condition_patch(pod: PodRecord, parts: Sentences) -> dict[str, Any]:
    """Our condition; of a pod that waits, also the one that autoscalers look at."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = "".join(part.capitalize() for part in parts.about.replace("_", "-").split("-")) or "Waits"
    record: dict[str, Any] = {"message": parts.text[:LONGEST], "lastTransitionTime": now}
    conditions = [{"type": names.CONDITION, "status": parts.condition, "reason": about, **record}]
    if parts.condition == "False" and not pod.gates:
        conditions.append({"type": "PodScheduled", "status": "False", "reason": parts.scheduled, **record})
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": conditions}}
