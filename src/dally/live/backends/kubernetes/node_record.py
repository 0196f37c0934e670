"""What matters of a node: its GPUs, where it stands, and whether it takes work."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from dally.cluster.formats.from_machines import MOST_GPUS_PER_MACHINE
from dally.cluster.formats.kubernetes import GPU_RESOURCES, TYPE_LABELS
from dally.live.backends import base
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.pod_needs import Needs, room_of
from dally.live.backends.kubernetes.pod_record import PodRecord
from dally.live.backends.kubernetes.quantity import quantity, whole_number
from dally.live.backends.kubernetes.taints import Taint, taints_of, untolerated

OF_KUBERNETES: Final = "node.kubernetes.io/"  # its own taints say that a node is in trouble


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node; `room` is what pods may take of it."""

    name: str
    labels: dict[str, str]
    room: Needs
    state: str
    reason: str
    capacity_gpus: int = 0  # with those that have failed
    ready: bool = True  # its kubelet answers
    taints: tuple[Taint, ...] = ()  # that keep pods away
    conditions: tuple[str, ...] = ()  # that are true


def node_record(entry: Entry, taints: Collection[str]) -> NodeRecord:
    """The record of a node as the server tells of it; `taints` are none of its troubles."""
    about, spec, status = entry["metadata"], entry.get("spec") or {}, entry.get("status") or {}
    room = room_of(status)
    all_taints = taints_of(spec)
    bars = tuple(taint for taint in all_taints if taint.key not in taints)
    why = str((about.get("annotations") or {}).get(names.DRAINED) or "")
    state, reason = _state(spec, status, bars, why)
    labels = {str(name): str(value) for name, value in (about.get("labels") or {}).items()}
    owned = int(sum(quantity((status.get("capacity") or {}).get(name, 0)) for name in GPU_RESOURCES))
    ready = not any(map(_is_not_ready, status.get("conditions") or ()))
    gpus = max(room.gpus, owned)
    if gpus > MOST_GPUS_PER_MACHINE:
        raise ValueError(f"{gpus} GPUs: at most {MOST_GPUS_PER_MACHINE} a machine")
    true = [str(row.get("type")) for row in status.get("conditions") or () if row.get("status") == "True"]
    return NodeRecord(about["name"], labels, room, state, reason, gpus, ready, all_taints, tuple(true))


def _is_not_ready(condition: Entry) -> bool:
    return condition.get("type") == "Ready" and condition.get("status") != "True"


def _state(spec: Entry, status: Entry, taints: Collection[Taint], why: str) -> tuple[str, str]:
    """Nothing new starts on a node in trouble; what runs there is left alone as long as Kubernetes does so."""
    if spec.get("unschedulable"):
        return base.DRAINING, f"cordoned: {why}" if why else "cordoned"
    for condition in status.get("conditions") or ():
        if _is_not_ready(condition):
            return base.DRAINING, f"not ready: {condition.get('reason') or condition.get('status')}"
    for taint in taints:
        if taint.key.startswith(OF_KUBERNETES):
            return base.DRAINING, f"taint {taint.key}:{taint.effect}"
    return base.UP, ""


def why_not(pod: PodRecord, node: NodeRecord) -> str:
    """Why the pod may not run there, whatever is free; empty if it may."""
    if pod.needs.gpus and node.room.gpus and pod.needs.kind != node.room.kind:
        return f"pod {pod.name} asks for {pod.needs.kind or GPU_RESOURCES[0]}, and {node.name} has another kind"
    if not fits(pod.selector, node):
        return f"the node selector or affinity of pod {pod.name} does not let it on {node.name}"
    taint = untolerated(node.taints, pod.tolerations)
    if taint is not None:
        return f"pod {pod.name} does not tolerate the taint {taint.key}:{taint.effect} of {node.name}"
    return ""


def fits(selector: Entry, node: NodeRecord) -> bool:
    """Whether a pod's nodeSelector and required affinity let it run there: the kubelet would refuse it."""
    if any(node.labels.get(name) != value for name, value in (selector.get("labels") or {}).items()):
        return False
    terms = selector.get("terms")
    return not terms or any(_term_fits(term, node) for term in terms)


def types_in(selector: Entry) -> tuple[str, ...]:
    """The types of GPU that a pod's node selector or affinity allows; none: it says nothing of them."""
    named = [value for name, value in (selector.get("labels") or {}).items() if name in TYPE_LABELS]
    terms = selector.get("terms") or []
    if named or len(terms) != 1:
        return tuple(named)
    rules = terms[0].get("matchExpressions") or ()
    result = [rule for rule in rules if rule.get("key") in TYPE_LABELS and rule.get("operator") == "In"]
    return tuple(result[0].get("values") or ()) if result else ()


def _term_fits(term: Entry, node: NodeRecord) -> bool:
    rules = [(rule, node.labels.get(rule["key"])) for rule in term.get("matchExpressions") or ()]
    rules += [(rule, node.name) for rule in term.get("matchFields") or ()]
    return bool(rules) and all(_rule_fits(rule, value) for rule, value in rules)


def _rule_fits(rule: Entry, value: str | None) -> bool:
    how: Any = rule.get("operator")
    values = rule.get("values") or []
    if how == "Exists":
        return value is not None
    if how == "DoesNotExist":
        return value is None
    if how == "NotIn":
        return value not in values
    if how in ("Gt", "Lt"):
        here, request = whole_number(value or ""), whole_number(str(values[0])) if values else None
        if here is None or request is None:
            return False
        return here > request if how == "Gt" else here < request
    return value in values
