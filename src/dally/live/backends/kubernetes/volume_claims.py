"""Persistent volume claims of pods: on which nodes their volumes can be, and which wait for a node to be chosen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from urllib.parse import quote

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.kube_api import MERGE, Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.node_record import NodeRecord, fits
from dally.live.backends.kubernetes.pod_record import PodRecord

AGAIN_S: Final = 5.0  # before a claim that is not bound yet is read again
WITHIN_S: Final = 5.0
SELECTED: Final = "volume.kubernetes.io/selected-node"
BOUND: Final = "pv.kubernetes.io/bind-completed"
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER: Final = ("", "kubernetes.io/no-provisioner")
ZONES: Final = (
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
)  # fmt: skip

Key = tuple[str, str]  # namespace and name


class VolumeClaim(NamedTuple):
    """What is known of a claim."""

    terms: tuple[Entry, ...] = ()  # of node affinity, of which one must fit; none: any node
    zones: tuple[tuple[str, frozenset[str]], ...] = ()  # labels that a node with zones must have
    selects: bool = False  # it is provisioned once a node is chosen
    waits: str = ""  # why its pods cannot start yet
    unmodelled: str = ""
    bound: bool = False  # for good

    def why_not(self, node: NodeRecord) -> str:
        """Why its volume cannot be there; empty if it can."""
        if self.terms and not fits({"terms": list(self.terms)}, node):
            return "cannot be on the node"
        if any(label in node.labels for label in ZONES):
            wrong = next((label for label, values in self.zones if node.labels.get(label) not in values), "")
            return f"is in another {wrong.rpartition('/')[2]}" if wrong else ""
        return ""


UNREAD: Final = VolumeClaim(waits="was not read yet")


class VolumeClaims:
    """Reads the claims of pods that wait, each once when it is bound, and every few seconds until then."""

    def __init__(self, api: KubeApi, pool: ThreadPoolExecutor) -> None:
        self._api = api
        self._pool = pool
        self._known: dict[Key, VolumeClaim] = {}
        self._again_s: dict[Key, float] = {}

    def read(self, pods: Iterable[PodRecord]) -> None:
        """Those that these pods name and that may have changed."""
        now = time.monotonic()
        named = {key: None for pod in pods for key in _keys(pod)}
        desired = [key for key in named if now >= self._again_s.get(key, -1.0)]
        for key, claim in zip(desired, self._pool.map(self._read, desired), strict=True):
            self._known[key] = claim
            self._again_s[key] = float("inf") if claim.bound else now + AGAIN_S

    def is_due(self, pods: Sequence[PodRecord]) -> bool:
        """Whether one of their claims is to be read again by now."""
        return any(time.monotonic() >= self._again_s.get(key, -1.0) for pod in pods for key in _keys(pod))

    def forget(self, pods: Iterable[PodRecord]) -> None:
        """They wait no more; a claim may be deleted and made anew."""
        for key in [key for pod in pods for key in _keys(pod)]:
            self._known.pop(key, None)
            self._again_s.pop(key, None)

    def why_not(self, pod: PodRecord, node: NodeRecord) -> str:
        """Why the pod's volumes cannot be on that node; empty if they can."""
        for key in _keys(pod):
            reason = self._known.get(key, UNREAD).why_not(node)
            if reason:
                return f"the volume of claim {key[1]} {reason} {node.name}"
        return ""

    def waits(self, pods: Iterable[PodRecord]) -> str:
        """For which claim these pods wait, and why; empty if for none."""
        for key, claim in self._of(pods):
            if claim.waits:
                return f"its claim {key[1]} {claim.waits}"
        return ""

    def unmodelled(self, pods: Sequence[PodRecord]) -> str:
        """A claim of these pods of a sort that nobody here checks."""
        if not any(pod.rules.claims for pod in pods):
            return ""
        users = Counter(key for pod in pods for key in set(_keys(pod)))
        for key, claim in self._of(pods):
            if claim.unmodelled:
                return claim.unmodelled
            if claim.selects and users[key] > 1:
                return f"claim {key[1]}, which is not bound yet, in several pods"
        return ""

    def select(self, pod: PodRecord, node: str, fence: Fence) -> None:
        """Have the volumes of its claims made where the pod goes, as kube-scheduler does."""
        for key, claim in self._of((pod,)):
            if claim.selects:
                body = {"metadata": {"annotations": {SELECTED: node}}}
                self._api.insist("PATCH", _path(key), body, WITHIN_S, MERGE, fence.left_s)

    def _of(self, pods: Iterable[PodRecord]) -> Iterator[tuple[Key, VolumeClaim]]:
        for pod in pods:
            for key in _keys(pod):
                yield key, self._known.get(key, UNREAD)

    # What the server says.

    def _read(self, key: Key) -> VolumeClaim:
        try:
            return self._claim(self._api.get(_path(key)))
        except RefusedError as refused:
            return VolumeClaim(waits="is not there" if refused.code == 404 else f"cannot be read: {refused.code}")
        except BackendError:
            return self._known.get(key, UNREAD)

    def _claim(self, entry: Entry) -> VolumeClaim:
        about, spec = entry["metadata"], entry.get("spec") or {}
        notes = about.get("annotations") or {}
        if "deletionTimestamp" in about:
            return VolumeClaim(waits="is being deleted")
        if spec.get("volumeName"):
            if BOUND not in notes:
                return VolumeClaim(waits="is being bound")
            return _volume(self._api.get(f"/api/v1/persistentvolumes/{quote(spec['volumeName'])}"))
        name = str(notes.get(OLD_CLASS) or spec.get("storageClassName") or "")
        if not name:
            return VolumeClaim(waits="is not bound")
        made_by = self._api.get(f"/apis/storage.k8s.io/v1/storageclasses/{quote(name)}")
        if made_by.get("volumeBindingMode") != "WaitForFirstConsumer":
            return VolumeClaim(waits="is not bound")
        if made_by.get("provisioner", "") in NO_PROVISIONER:
            return VolumeClaim(unmodelled=f"a claim of class {name}, which takes a volume that is there already")
        if notes.get(SELECTED):
            chosen = [{"key": "metadata.name", "operator": "In", "values": [notes[SELECTED]]}]
            return VolumeClaim(({"matchFields": chosen},))
        return VolumeClaim(tuple(map(_topology_term, made_by.get("allowedTopologies") or ())), selects=True)


def _volume(entry: Entry) -> VolumeClaim:
    required = ((entry.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    labels = entry["metadata"].get("labels") or {}
    zones = tuple((name, frozenset(labels[name].split("__"))) for name in ZONES if name in labels)
    return VolumeClaim(tuple(required.get("nodeSelectorTerms") or ()), zones, bound=True)


def _topology_term(entry: Entry) -> Entry:
    rows = entry.get("matchLabelExpressions") or ()
    return {"matchExpressions": [{"operator": "In", "key": row["key"], "values": row["values"]} for row in rows]}


def _keys(pod: PodRecord) -> list[Key]:
    return [(pod.namespace, name) for name in pod.rules.claims]


def _path(key: Key) -> str:
    return "/api/v1/namespaces/{}/persistentvolumeclaims/{}".format(*map(quote, key))
