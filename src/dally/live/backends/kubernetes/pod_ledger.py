"""The pods of the cluster by gang and by node, with what we have told the server and not heard back yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.pod_needs import Needs, total_needs
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord, Trust, pod_record
from dally.live.backends.kubernetes.taints import Toleration

HEAR_BACK_S: Final = 30.0  # the watch tells of what the server has taken long before


class PodLedger:
    """Keeps records; the watch's thread writes, the daemon's reads and assumes. Every change sets `changed`."""

    def __init__(
        self,
        changed: threading.Event,
        ours: Callable[[PodRecord], bool],
        trusts: Trust,
        scheduler: str = "",
        taints: Collection[str] = (),
    ) -> None:
        """Pods that are not `ours` are a gang each; `trusts`: see pod_record.

        Pods that name the scheduler tolerate `taints`. Others of ours do not: behind a gate they are left to
        kube-scheduler, which would refuse them.
        """
        self.lock = threading.RLock()
        self.dirty: set[GangKey] = set()  # gangs that changed since somebody cleared this
        self.moves = 0  # counts changes of pods that are on a node
        self.apart_moved: list[PodRecord] = []  # those of them with anti-affinity, since somebody cleared this
        self._changed = changed
        self._ours = ours
        self._trusts = trusts
        self._scheduler = scheduler
        self._tolerated = tuple(Toleration(key, "Exists", "", "") for key in taints)
        self._pods: dict[str, PodRecord] = {}
        self._gangs: dict[GangKey, dict[str, PodRecord]] = {}
        self._nodes: dict[str, dict[str, PodRecord]] = {}
        self._apart: dict[str, PodRecord] = {}  # on a node and with required anti-affinity
        self._in_order: dict[GangKey, list[PodRecord]] = {}  # as `gang` gives them, until one of them changes
        self._placeholders: dict[GangKey, Sequence[PodRecord]] = {}  # for pods that are not made yet
        self._usage: dict[str, Needs] = {}
        self._bound: dict[str, tuple[str, dict[str, str], float]] = {}  # by uid: node, annotations, until when
        self._ending: dict[str, float] = {}
        self._disowned: set[str] = set()  # pods that do not end

    # What the watch says.

    def put(self, entry: Entry) -> None:
        """A pod is new or changed."""
        self._put(self.record(entry))

    def record(self, entry: Entry) -> PodRecord:
        """What matters of a pod here."""
        pod = pod_record(entry, self._trusts)
        if pod.uid in self._disowned:
            pod = replace(pod, scheduler="", stated={}, gates=())
        if not self._ours(pod):
            return replace(pod, key=GangKey(pod.namespace, "pod", pod.name))
        if self._tolerated and pod.scheduler == self._scheduler:
            return replace(pod, tolerations=(*pod.tolerations, *self._tolerated))
        return pod

    def drop(self, entry: Entry) -> None:
        """A pod is gone."""
        with self.lock:
            self._forget(entry["metadata"]["uid"])

    def only(self, entries: list[Entry]) -> None:
        """There are no others."""
        with self.lock:
            for uid in self._pods.keys() - {entry["metadata"]["uid"] for entry in entries}:
                self._forget(uid)

    def _put(self, pod: PodRecord) -> None:
        with self.lock:
            if pod.node:
                self._bound.pop(pod.uid, None)
            if pod.stopping:
                self._ending.pop(pod.uid, None)
            pod = self._assumed(pod)
            if self._pods.get(pod.uid) != pod:
                self._replace(pod)

    def _forget(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        self._bound.pop(uid, None)
        self._ending.pop(uid, None)
        self._disowned.discard(uid)
        if pod is not None:
            self._take_out(pod)
            self._touch(pod)

    # What we have told the server.

    def bound(self, pod: PodRecord, node: str, notes: dict[str, str]) -> None:
        """The server has bound the pod there."""
        self._assume(pod, bound=(node, notes, time.monotonic() + HEAR_BACK_S))

    def expect_end(self, pod: PodRecord) -> None:
        """The server has taken its eviction."""
        self._assume(pod, goes=True)

    def disown(self, pod: PodRecord) -> None:
        """It was told to go and does not end: from now on it only takes its GPUs, as pods of others do."""
        with self.lock:
            if pod.uid in self._pods:
                self._disowned.add(pod.uid)
                key = GangKey(pod.namespace, "pod", pod.name)
                self._replace(replace(self._pods[pod.uid], key=key, scheduler="", stated={}, gates=()))

    def _assume(
        self, pod: PodRecord, bound: tuple[str, dict[str, str], float] | None = None, goes: bool = False
    ) -> None:
        with self.lock:
            known = self._pods.get(pod.uid)
            if known is None:
                return
            if bound is not None:
                self._bound[pod.uid] = bound
            if goes:
                self._ending[pod.uid] = time.monotonic() + HEAR_BACK_S
            self._replace(self._assumed(known))

    def _assumed(self, pod: PodRecord) -> PodRecord:
        now = time.monotonic()
        node, notes, until_s = self._bound.get(pod.uid, ("", {}, 0.0))
        if now < until_s and not pod.node:
            pod = replace(pod, node=node, stated={**pod.stated, **notes})
        if now < self._ending.get(pod.uid, 0.0) and not pod.stopping:
            pod = replace(pod, stopping=True)
        return pod

    def _replace(self, pod: PodRecord) -> None:
        before = self._pods.get(pod.uid)
        if before is not None:
            self._take_out(before)
            self.dirty.add(before.key)
        self._pods[pod.uid] = pod
        self._gangs.setdefault(pod.key, {})[pod.uid] = pod
        self._in_order.pop(pod.key, None)
        if pod.node:
            self._nodes.setdefault(pod.node, {})[pod.uid] = pod
            self._usage.pop(pod.node, None)
            self._note_move(pod)
        self._touch(pod)

    def _take_out(self, pod: PodRecord) -> None:
        gang = self._gangs.get(pod.key, {})
        gang.pop(pod.uid, None)
        self._in_order.pop(pod.key, None)
        if not gang:
            self._gangs.pop(pod.key, None)
        self._usage.pop(pod.node, None)
        if pod.node:
            self._note_move(pod, gone=True)
        node = self._nodes.get(pod.node, {})
        node.pop(pod.uid, None)
        if not node:
            self._nodes.pop(pod.node, None)

    def _note_move(self, pod: PodRecord, gone: bool = False) -> None:
        self.moves += 1
        if pod.rules.apart:
            self.apart_moved.append(pod)
            if gone or pod.ended:
                self._apart.pop(pod.uid, None)
            else:
                self._apart[pod.uid] = pod

    def _touch(self, pod: PodRecord) -> None:
        self.dirty.add(pod.key)
        self._changed.set()

    def touch(self, key: GangKey) -> None:
        """Look at this gang again."""
        with self.lock:
            self.dirty.add(key)
        self._changed.set()

    def touch_all(self) -> None:
        """Look at every gang again."""
        with self.lock:
            self.dirty |= self._gangs.keys() | self._placeholders.keys()

    def hold_place(self, key: GangKey, pods: Sequence[PodRecord]) -> None:
        """Records that are shown until the pods of a gang are there; none: it has all that it will have."""
        with self.lock:
            if self._placeholders.get(key, ()) == pods:
                return
            if pods:
                self._placeholders[key] = pods
            else:
                self._placeholders.pop(key, None)
            self._in_order.pop(key, None)
        self.touch(key)

    # What others ask.

    def gang(self, key: GangKey) -> list[PodRecord]:
        """Its pods, in order of rank; the same list, which is nobody's to change, until one of them changes."""
        with self.lock:
            pods = self._in_order.get(key)
            if pods is None:
                pods = self._sorted(key)
                if pods:
                    self._in_order[key] = pods
            return pods

    def _sorted(self, key: GangKey) -> list[PodRecord]:
        pods = list(self._gangs.get(key, {}).values())
        placeholders = self._placeholders.get(key, ())
        live = [pod for pod in pods if not (pod.ended or pod.stopping)]
        if len(live) < len(placeholders) and not any(pod.node for pod in live):
            return [*placeholders, *(pod for pod in pods if pod.ended or pod.stopping)]
        return sorted(pods, key=lambda pod: pod.rank_key)

    def usage(self, name: str) -> Needs:
        """What the pods of a node take of it, added up once until one of them changes."""
        with self.lock:
            if name not in self._usage:
                self._usage[name] = total_needs(pod.needs for pod in self.on_node(name))
            return self._usage[name]

    def on_node(self, name: str) -> list[PodRecord]:
        """Pods that take something of a node: those that have ended do not."""
        with self.lock:
            return [pod for pod in self._nodes.get(name, {}).values() if not pod.ended]

    def placed(self) -> list[PodRecord]:
        """Pods that are on a node and have not ended."""
        with self.lock:
            return [pod for pods in self._nodes.values() for pod in pods.values() if not pod.ended]

    def with_apart(self) -> list[PodRecord]:
        """Those of them that keep others out of their domain."""
        with self.lock:
            return list(self._apart.values())
