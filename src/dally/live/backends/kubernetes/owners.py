"""The controllers of gangs: how many pods they make, and when they were made themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from urllib.parse import quote

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.pod_needs import needs_of
from dally.live.backends.kubernetes.pod_record import GangKey, Owner, PodRecord, moment_s
from dally.live.backends.kubernetes.quantity import whole_number

JOBSET_API: Final = "jobset.x-k8s.io/v1alpha2"
LEADER_WORKER_API: Final = "leaderworkerset.x-k8s.io/v1"
POD_GROUP_APIS: Final = {
    "podgroup": "scheduling.k8s.io/v1alpha2",
    "podgroup-x": "scheduling.x-k8s.io/v1alpha1",
    "podgroup-volcano": "scheduling.volcano.sh/v1beta1",
}  # by the kind of a gang
PLURALS: Final = {
    "Job": "jobs", "JobSet": "jobsets", "PyTorchJob": "pytorchjobs", "MPIJob": "mpijobs",
    "RayCluster": "rayclusters", "LeaderWorkerSet": "leaderworkersets",
}  # fmt: skip
REFUSALS: Final = (403, 404)  # it may not be read, or is not there: rights and objects may come yet
REFUSED_AGAIN_S: Final = 60.0  # after these
AGAIN_S: Final = 10.0  # after any other answer


class Controller(NamedTuple):
    """What a controller says; `size` None: nothing of its pods, and `trouble` why."""

    uid: str
    created_s: float
    size: int | None
    trouble: str = ""
    total: int | None = None  # pods that are to come to a good end, if more than run at a time
    over: str = ""  # how it ended, if it has
    side_by_side: int | None = None  # parallelism of a Job
    indexed: bool = False
    requested: int | None = None  # parallelism that it came with, once we have changed it


class Owners:
    """Reads controllers once each, eight at a time."""

    def __init__(self, api: KubeApi, pool: ThreadPoolExecutor) -> None:
        self._api = api
        self._pool = pool
        self._known: dict[GangKey, Controller] = {}
        self._stale: set[GangKey] = set()
        self._later_s: dict[GangKey, float] = {}  # not before then: the server could not say

    def get(self, key: GangKey) -> Controller | None:
        """As it was read."""
        return self._known.get(key)

    def forget(self, key: GangKey) -> None:
        """The gang is no more."""
        self._known.pop(key, None)
        self._stale.discard(key)
        self._later_s.pop(key, None)

    def read_again(self, key: GangKey) -> None:
        """It may say something else by now."""
        self._stale.add(key)

    def resized(self, key: GangKey, pods: int, requested: int) -> None:
        """We have told it to make so many pods."""
        known = self._known[key]
        total = None if known.total is None else pods
        self._known[key] = known._replace(size=pods, side_by_side=pods, total=total, requested=requested)

    def due(self) -> set[GangKey]:
        """Those that could not be read, and are to be asked again by now."""
        now = time.monotonic()
        return {key for key, later_s in self._later_s.items() if now >= later_s}

    def read(self, gangs: Iterable[tuple[GangKey, list[PodRecord]]]) -> None:
        """Those that are not known yet, or were made anew under the same name."""
        desired: list[tuple[GangKey, Owner]] = []
        for key, pods in gangs:
            owner = owner_of(key, pods)
            if owner is not None and self._is_needed(key, owner):
                desired.append((key, owner))
        for (key, owner), result in zip(desired, self._pool.map(self._read, desired), strict=True):
            self._stale.discard(key)
            self._later_s.pop(key, None)
            if isinstance(result, Controller):
                self._known[key] = result
                continue
            trouble, again_s = result
            self._later_s[key] = time.monotonic() + again_s
            known = self._known.get(key)
            if known is None or owner.uid not in ("", known.uid):
                self._known[key] = Controller(owner.uid, 0.0, None, trouble)

    def _is_needed(self, key: GangKey, owner: Owner) -> bool:
        if key in self._later_s:
            return time.monotonic() >= self._later_s[key]
        known = self._known.get(key)
        return known is None or key in self._stale or owner.uid not in ("", known.uid)

    def _read(self, desired: tuple[GangKey, Owner]) -> Controller | tuple[str, float]:
        """What it says, or why that cannot be known now and when to ask again: others do not wait for it."""
        key, owner = desired
        trouble = f"its {owner.kind} cannot be read"
        try:
            return _controller(owner, self._api.get(path_of(key.namespace, owner)))
        except RefusedError as refused:
            again_s = REFUSED_AGAIN_S if refused.code in REFUSALS else AGAIN_S
            return f"{trouble}: {refused.code}", again_s
        except BackendError:
            raise
        except Exception as error:  # of a shape that nobody has thought of
            return f"{trouble}: {type(error).__name__}", AGAIN_S


def path_of(namespace: str, owner: Owner) -> str:
    """Of the API."""
    plural = PLURALS.get(owner.kind, f"{owner.kind.lower()}s")
    names = (quote(part, safe="") for part in (namespace, plural, owner.name))
    return "/apis/{}/namespaces/{}/{}/{}".format(quote(owner.api), *names)


def _controller(owner: Owner, entry: Entry) -> Controller:
    about, spec = entry["metadata"], entry.get("spec") or {}
    size = size_of(owner.kind, spec)
    trouble = "" if size else f"its {owner.kind} does not say how many pods {_counted(owner.kind)}"
    total = spec.get("completions") if owner.kind == "Job" else None
    total = None if total is None else int(total)
    over = _over((entry.get("status") or {}).get("conditions") or ())
    made_s = moment_s(about.get("creationTimestamp"))
    if owner.kind != "Job":
        return Controller(about["uid"], made_s, size, trouble, total, over)
    requested = whole_number(str((about.get("annotations") or {}).get(names.REQUESTED, "")))
    side_by_side = int(1 if spec.get("parallelism") is None else spec["parallelism"])
    indexed = spec.get("completionMode") == "Indexed"
    return Controller(about["uid"], made_s, size, trouble, total, over, side_by_side, indexed, requested or None)


def _counted(kind: str) -> str:
    return "start together" if kind == "PodGroup" else "ask for GPUs"


def _over(conditions: Iterable[Entry]) -> str:
    """How a controller says that it has ended; nothing if it does not."""
    true = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    if "Failed" in true:
        return base.FAILED
    return base.FINISHED if true & {"Complete", "Completed", "Succeeded"} else ""


def owner_of(key: GangKey, pods: list[PodRecord]) -> Owner | None:
    """The controller of the whole gang; None: its pods have none, or one of their own each."""
    if key.kind == "jobset":
        return Owner(JOBSET_API, "JobSet", key.name, "")
    if key.kind == "leaderworkerset":  # of which this gang is one group
        return Owner(LEADER_WORKER_API, "LeaderWorkerSet", key.name.rpartition("-")[0], "")
    if key.kind in POD_GROUP_APIS:
        return Owner(POD_GROUP_APIS[key.kind], "PodGroup", key.name, "")
    return maker_of(key, pods)


def maker_of(key: GangKey, pods: list[PodRecord]) -> Owner | None:
    """What made all pods of the gang, and would be deleted to end it; a PodGroup makes none."""
    if key.kind in ("jobset", "leaderworkerset"):
        return owner_of(key, pods)
    owners = [pod.owner for pod in pods if pod.owner is not None]
    if key.kind == "gang" or key.kind in POD_GROUP_APIS:
        one = {owner.uid for owner in owners}
        return owners[0] if len(one) == 1 and owners[0].kind in PLURALS else None
    return next((owner for owner in owners if owner.kind.lower() == key.kind and key.kind != "pod"), None)


def size_of(kind: str, spec: Entry) -> int | None:
    """How many pods with GPUs the controller makes; those without come and go as they like.

    A PodGroup counts all of them: see `gang_of`.
    """
    if kind == "Job":
        return _job_size(spec)
    if kind == "PodGroup":
        gang = (spec.get("schedulingPolicy") or {}).get("gang") or {}
        return int(spec.get("minMember") or gang.get("minCount") or 0) or None
    if kind == "JobSet":
        jobs = [(int(one.get("replicas", 1)), one["template"]["spec"]) for one in spec.get("replicatedJobs") or ()]
        return sum(times * (_job_size(job) or 0) for times, job in jobs) or None
    if kind == "LeaderWorkerSet":
        return _group_size(spec.get("leaderWorkerTemplate") or {})
    if kind == "RayCluster":
        return _ray_size(spec)
    specs: Entry = next((spec[field] for field in spec if field.endswith("ReplicaSpecs")), {})
    result = 0
    for group in specs.values():
        if _has_gpus(group.get("template")):
            result += int(1 if group.get("replicas") is None else group["replicas"])
    return result or None


def _job_size(spec: Entry) -> int | None:
    """Pods of a Job at one time."""
    template = (spec.get("template") or {}).get("spec") or {}
    if template and not needs_of(template).gpus:
        return None
    side_by_side = int(1 if spec.get("parallelism") is None else spec["parallelism"])
    completions = spec.get("completions")
    return (side_by_side if completions is None else min(side_by_side, int(completions))) or None


def _group_size(spec: Entry) -> int | None:
    """Pods of one group of a LeaderWorkerSet: a leader, which may have a template of its own, and workers."""
    workers = _has_gpus(spec.get("workerTemplate"))
    leader = _has_gpus(spec["leaderTemplate"]) if spec.get("leaderTemplate") else workers
    return leader + workers * (int(1 if spec.get("size") is None else spec["size"]) - 1) or None


def _ray_size(spec: Entry) -> int | None:
    """Pods of a RayCluster: its head, and each group's replicas of so many hosts."""
    result = int(_has_gpus((spec.get("headGroupSpec") or {}).get("template")))
    for group in spec.get("workerGroupSpecs") or ():
        if _has_gpus(group.get("template")):
            replicas = group.get("replicas")
            result += int(1 if replicas is None else replicas) * int(group.get("numOfHosts") or 1)
    return result or None


def _has_gpus(template: Entry | None) -> bool:
    return needs_of((template or {}).get("spec") or {}).gpus > 0
