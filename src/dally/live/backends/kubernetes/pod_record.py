"""What matters of a pod, in a hundredth of its size."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.pod_needs import Needs, needs_of
from dally.live.backends.kubernetes.pod_rules import NO_RULES, PodRules, rules_of, unmodelled_in
from dally.live.backends.kubernetes.quantity import whole_number
from dally.live.backends.kubernetes.taints import Toleration, tolerations_of
from dally.live.backends.stated_facts import command_line_of

Trust = Callable[[str, str, Mapping[str, str]], bool]  # of a pod's uid, node and annotations
OURS: Final = frozenset((names.RANK, names.PLACEMENT, names.TIER, names.NODE, names.SCHEDULER, names.SIGNATURE))
ENDED: Final = frozenset(("Succeeded", "Failed"))
_API: Final = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[a-z0-9][-a-z0-9]*")
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Owner(NamedTuple):
    """The controller that made a pod, and makes another if it goes away."""

    api: str  # batch/v1
    kind: str  # Job
    name: str
    uid: str


class GangKey(NamedTuple):
    """What tells gangs apart; `kind` is gang, pod, or that of the controller in small letters."""

    namespace: str
    kind: str
    name: str

    @property
    def job_id(self) -> str:
        """As people and the store know it; a namespace has no dots in it."""
        return ".".join(self)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod. `node` is empty until it is bound, or pinned there."""

    uid: str
    namespace: str
    name: str
    key: GangKey
    owner: Owner | None
    scheduler: str
    node: str
    phase: str
    stopping: bool  # it was told to go
    needs: Needs
    created_s: float
    rank_key: tuple[Any, ...]
    priority: int
    grace_s: float
    limit_s: float | None
    stated: dict[str, str]  # annotations and labels of ours, and the queue
    size: int | None  # of its gang, where the pod itself says
    selector: Entry = field(default_factory=dict)  # nodeSelector and required node affinity, as they stand
    gates: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()  # ConfigMaps of its volumes with our prefix
    noted: bool = True  # it has annotations
    bound_s: float = 0.0  # when the server says that it was bound, to the second
    tolerations: tuple[Toleration, ...] = ()
    unmodelled: str = ""  # a rule of its placement that nobody here checks
    rules: PodRules = NO_RULES
    labels: dict[str, str] = field(default_factory=dict)  # all of them, as other pods' rules see them
    container: str = ""  # the one with GPUs, where there are several
    pinned: bool = False  # let through its gate for `node`, to which Kubernetes' own scheduler has yet to bind it
    command_line: str = ""  # of the container with GPUs
    placeholder: bool = False  # of a pod that its controller makes once its Job is admitted

    @property
    def path(self) -> str:
        """Of the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def ended(self) -> bool:
        """Its containers are over."""
        return self.phase in ENDED


def pod_record(entry: Entry, trusts: Trust) -> PodRecord:
    """The record of a pod as the server tells of it; `trusts` says whether we wrote what is on it in our name."""
    about, spec, status = entry["metadata"], entry.get("spec") or {}, entry.get("status") or {}
    labels, notes = about.get("labels") or {}, about.get("annotations") or {}
    labels = {name: value for name, value in labels.items() if name not in OURS}
    noted = bool(notes)
    if not trusts(about["uid"], spec.get("nodeName") or str(notes.get(names.NODE, "")), notes):
        notes = {name: value for name, value in notes.items() if name not in OURS}
    owner = _owner(about)
    limit = spec.get("activeDeadlineSeconds")
    pin = "" if spec.get("nodeName") or spec.get("schedulingGates") else str(notes.get(names.NODE, ""))
    return PodRecord(
        about["uid"],
        about["namespace"],
        about["name"],
        _key(about, spec, labels, notes, owner),
        owner,
        spec.get("schedulerName") or "",
        spec.get("nodeName") or pin,
        status.get("phase") or "Pending",
        "deletionTimestamp" in about,
        needs_of(spec),
        moment_s(about.get("creationTimestamp")),
        _rank_key(about["name"], labels, notes),
        int(spec.get("priority") or 0),
        float(spec.get("terminationGracePeriodSeconds") or 0),
        float(limit) if limit else None,
        {name: str(value) for name, value in {**labels, **notes}.items() if _is_ours(name)},
        _size(labels, notes),
        _selector(spec),
        tuple(gate.get("name", "") for gate in spec.get("schedulingGates") or ()),
        _maps(spec),
        noted,
        _bound_s(status),
        tolerations_of(spec),
        unmodelled_in(spec),
        rules_of(about, spec),
        about.get("labels") or {},
        _container(spec),
        bool(pin),
        _command_line(spec),
    )


def _container(spec: Entry) -> str:
    """The name of the container that trains, where there are several."""
    return str(_training(spec).get("name", "")) if len(spec.get("containers") or []) > 1 else ""


def _command_line(spec: Entry) -> str:
    training = _training(spec)
    parts = [*(training.get("command") or ()), *(training.get("args") or ())]
    return command_line_of(" ".join(map(str, parts)) or str(training.get("image", "")))


def _training(spec: Entry) -> Entry:
    """The container that trains."""
    containers: list[Entry] = spec.get("containers") or [{}]
    if len(containers) == 1:
        return containers[0]
    return next((one for one in containers if needs_of({"containers": [one]}).gpus), containers[0])


def _is_ours(name: str) -> bool:
    return name.startswith(names.PREFIX) or name in names.QUEUES


def moment_s(text: str | None) -> float:
    """Seconds since 1970 of `2026-11-16T10:00:00Z`."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _bound_s(status: Entry) -> float:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return moment_s(condition.get("lastTransitionTime"))
    return moment_s(status.get("startTime"))


def _owner(about: Entry) -> Owner | None:
    """Its controller; a name that no object can have is none's: the server takes whatever a user writes there."""
    for entry in about.get("ownerReferences") or ():
        if entry.get("controller"):
            owner = Owner(entry["apiVersion"], entry["kind"], entry["name"], entry["uid"])
            rules = zip((_API, _KIND, _NAME), owner, strict=False)
            return owner if all(rule.fullmatch(text) for rule, text in rules) else None
    return None


def _key(about: Entry, spec: Entry, labels: Entry, notes: Entry, owner: Owner | None) -> GangKey:
    """Its gang: as its user says, else that of the controller that made it, else itself."""
    space = about["namespace"]
    for label in (names.GANG, names.POD_GROUP):
        if labels.get(label):
            return GangKey(space, "gang", labels[label])
    if labels.get(names.JOBSET):
        return GangKey(space, "jobset", labels[names.JOBSET])
    if labels.get(names.KUBEFLOW):
        mpi = labels.get(names.KUBEFLOW_OPERATOR, "").startswith("mpi")
        made_by = owner.kind.lower() if owner is not None and owner.api.startswith("kubeflow.org/") else ""
        return GangKey(space, "mpijob" if mpi else made_by or "pytorchjob", labels[names.KUBEFLOW])
    if labels.get(names.LEADER_WORKER):
        group = labels.get(names.LEADER_WORKER_GROUP, "0")
        return GangKey(space, "leaderworkerset", f"{labels[names.LEADER_WORKER]}-{group}")
    if labels.get(names.RAY) and owner is not None and owner.kind == "RayCluster":
        return GangKey(space, "raycluster", owner.name)
    group = pod_group_of(space, spec, labels, notes)
    if group is not None:
        return group
    if owner is not None and owner.kind == "Job":
        return GangKey(space, "job", owner.name)
    return GangKey(space, "pod", about["name"])


def pod_group_of(space: str, spec: Entry, labels: Entry, notes: Entry) -> GangKey | None:
    """The PodGroup that the pod names, in the field of Kubernetes 1.36 or as coscheduling or Volcano have it."""
    named = {
        "podgroup": (spec.get("schedulingGroup") or {}).get("podGroupName"),
        "podgroup-x": labels.get(names.POD_GROUP_OF_COSCHEDULING),
        "podgroup-volcano": notes.get(names.POD_GROUP_OF_VOLCANO),
    }
    for kind, name in named.items():
        if name and _NAME.fullmatch(str(name)):
            return GangKey(space, kind, str(name))
    return None


def _size(labels: Entry, notes: Entry) -> int | None:
    for place in (labels, notes):
        for name in (names.GANG_SIZE, names.POD_GROUP_SIZE):
            if re.fullmatch(r"[1-9][0-9]{0,5}", str(place.get(name, ""))):
                return int(place[name])
    return None


def _rank_key(name: str, labels: Entry, notes: Entry) -> tuple[Any, ...]:
    """Order of ranks: the leading role, the indexes that controllers give, the name with its numbers as numbers."""
    role = next((str(labels[label]).lower() for label in names.ROLES if labels.get(label)), "")
    indexes = [str(labels.get(label, notes.get(label, ""))) for label in names.INDEXES]
    parts = [_rank_part(part) for part in re.split(r"([0-9]+)", name)]
    return role not in names.FIRST_ROLES, *(_rank_part(text)[0] for text in indexes), parts


def _rank_part(text: str) -> tuple[int, str]:
    number = whole_number(text)
    return (-1, text) if number is None or number < 0 else (number, "")


def _selector(spec: Entry) -> Entry:
    result: Entry = {}
    if spec.get("nodeSelector"):
        result["labels"] = spec["nodeSelector"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    if required.get("nodeSelectorTerms"):
        result["terms"] = required["nodeSelectorTerms"]
    return result


def _maps(spec: Entry) -> tuple[str, ...]:
    volumes = [(volume.get("configMap") or {}).get("name", "") for volume in spec.get("volumes") or ()]
    return tuple(name for name in volumes if name.startswith(names.HOSTFILE))
