"""Binding a gang: every pod to its machine, or none."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from dally.live.backends.base import BackendError, Placement
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.evictor import Evictor
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.kube_api import JSON_PATCH, KubeApi, RefusedError
from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.order_journal import AnnouncedBinding, OrderJournal
from dally.live.backends.kubernetes.plan_seal import PlanSeal
from dally.live.backends.kubernetes.pod_gang import write_placement
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord
from dally.live.backends.kubernetes.scheduling_gates import HOST, open_patch
from dally.live.backends.kubernetes.volume_claims import VolumeClaims

WITHIN_S: Final = 5.0  # a busy or silent server is asked again for so long
REFUSED_FOR_S: Final = 5.0  # shown as blocked; it is tried again as seldom as any blocked job
MOST_ANNOUNCED: Final = 2_000  # pods at a time: a Lease takes 256 KiB of annotations, some 5,000 pods
CONFLICT: Final = 409
MISSING: Final = 404

Task = tuple[PodRecord, str, dict[str, str], Fence]  # a pod, its node, what is written on it, who may have it bound


class Seating(NamedTuple):
    """Pods of a gang, where they go, and the whole gang's plan: whoever finds it half bound can finish it."""

    pods: Sequence[PodRecord]
    nodes: Sequence[str]
    ranks: Sequence[int]
    placement: Placement
    tier: str
    fence: Fence

    def tasks(self) -> Iterator[Task]:
        """Pod by pod: its node, what is written on it, and who may have it bound."""
        plan = write_placement(self.placement)
        for pod, node, rank in zip(self.pods, self.nodes, self.ranks, strict=False):
            notes = {names.RANK: str(rank), names.PLACEMENT: plan, names.TIER: self.tier}
            yield pod, node, notes | world_size(pod, self.placement), self.fence


def world_size(pod: PodRecord, placement: Placement) -> dict[str, str]:
    """Of a Job, whose pods are alike, how many of them start together: its pods' environment may name that."""
    if pod.key.kind != "job" or not pod.needs.gpus:
        return {}
    return {names.WORLD_SIZE: str(sum(placement.values()) // pod.needs.gpus)}


class Binder:
    """Binds pods, eight at a time. What goes with the binding is written on the pod in the same moment."""

    def __init__(
        self,
        api: KubeApi,
        pool: ThreadPoolExecutor,
        ledger: PodLedger,
        nodes: NodeLedger,
        claims: VolumeClaims,
        evictor: Evictor,
        seal: PlanSeal,
        journal: OrderJournal,
        scheduler: str,
    ) -> None:
        # Gangs that a rule of the server keeps from being bound, why, and until when that counts.
        self.refused: dict[GangKey, tuple[str, float]] = {}
        self._api = api
        self._pool = pool
        self._ledger = ledger
        self._nodes = nodes
        self._claims = claims
        self._evictor = evictor
        self._seal = seal
        self._journal = journal
        self._scheduler = scheduler

    def bind(self, seating: Seating) -> None:
        """Bind each pod to its node; if one cannot be, those that were go back, and a BackendError says why."""
        (problem,) = self.bind_all([seating])
        if problem:
            raise BackendError(problem)

    def bind_all(self, seatings: Sequence[Seating]) -> list[str]:
        """Each gang whole or not at all, all of them at once; what went wrong with each."""
        problems, begun = self._bind_each(seatings)
        for number in begun:
            if problems[number]:
                problems[number] = [self._take_back(seatings[number], problems[number][0])]
        return [lines[0] if lines else "" for lines in problems]

    def seat(self, seating: Seating) -> list[str]:
        """Bind each pod that can be; what went wrong, a line each. None goes back: the gang runs without."""
        (problems,), _ = self._bind_each([seating])
        return problems

    def _bind_each(self, seatings: Sequence[Seating]) -> tuple[list[list[str]], list[int]]:
        """What went wrong with the pods of each, and of which any were sent: not of what cannot be announced."""
        problems: list[list[str]] = [[] for _ in seatings]
        begun: dict[int, None] = {}
        for every in _batches(seatings):
            batch = [(number, task) for number, task in every if not problems[number]]
            try:
                self._announce([task for _, task in batch])
            except BackendError as error:
                for number, _ in batch:
                    problems[number] = [str(error)]
                continue
            begun |= dict.fromkeys(number for number, _ in batch)
            answers = [(number, self._pool.submit(self._bind, *task)) for number, task in batch]
            for number, answer in answers:
                problems[number] += filter(None, (answer.result(),))
            self._journal.clear()
        return problems, list(begun)

    def _announce(self, tasks: Sequence[Task]) -> None:
        """Gated pods are not bound by us: Kubernetes' scheduler looks for itself whether there is room."""
        if any(fence.leader is not None for *_, fence in tasks):
            written = (names.RANK, names.PLACEMENT, names.TIER)
            self._journal.announce(
                AnnouncedBinding(pod.namespace, pod.name, pod.uid, node, *(notes[name] for name in written))
                for pod, node, notes, _ in tasks
                if pod.scheduler == self._scheduler
            )

    def replay(self, fence: Fence) -> int:
        """Bind what the last leader announced and may still send; how many pods were not bound yet."""
        rows = self._journal.announced()
        bound = sum(self._pool.map(lambda row: self._replay(row, fence), rows))
        self._journal.clear()
        return bound

    def _replay(self, row: AnnouncedBinding, fence: Fence) -> bool:
        notes = {names.RANK: row.rank, names.PLACEMENT: row.placement, names.TIER: row.tier}
        notes[names.SIGNATURE] = self._seal.sign(row.uid, row.node, notes)
        path = f"/api/v1/namespaces/{row.namespace}/pods/{row.pod}"
        body = binding(row.namespace, row.pod, row.uid, row.node, notes)
        try:
            self._api.insist("POST", f"{path}/binding", body, WITHIN_S, left_s=fence.left_s)
        except RefusedError as refused:
            if refused.is_final:
                return False  # it is bound, or gone, or a rule keeps it from being bound, by a late request too
            raise
        return True

    def _take_back(self, seating: Seating, problem: str) -> str:
        """The others of the gang are evicted, but pods without a controller: these are left to be completed."""
        gang = self._ledger.gang(seating.pods[0].key)
        back = [pod for pod in gang if pod.node and not pod.stopping and not pod.ended and pod.owner is not None]
        stuck = self._evictor.evict(back, seating.fence, check=False) if back else []
        return "; ".join([problem, *stuck[:1]])

    def _bind(self, pod: PodRecord, node: str, notes: dict[str, str], fence: Fence) -> str:
        """What went wrong; nothing if it is bound there now."""
        try:
            if pod.scheduler != self._scheduler:
                notes = self._signed(pod, node, {**notes, names.NODE: node, names.SCHEDULER: self._scheduler})
                self._open(pod, notes, self._host(node), fence)
            else:
                if pod.gates:
                    self._open(pod, {}, "", fence)
                self._claims.select(pod, node, fence)
                notes = self._signed(pod, node, notes)
                body = binding(pod.namespace, pod.name, pod.uid, node, notes)
                self._api.insist("POST", f"{pod.path}/binding", body, WITHIN_S, left_s=fence.left_s)
        except RefusedError as refused:
            if refused.code != CONFLICT or not self._is_bound(pod, node):
                problem = f"pod {pod.name}: {refused}"
                if refused.is_final and refused.code not in (CONFLICT, MISSING):
                    self.refused[pod.key] = problem, time.monotonic() + REFUSED_FOR_S
                    self._ledger.touch(pod.key)
                return problem
        except BackendError as error:
            if not self._is_bound(pod, node):
                return f"pod {pod.name}: {error}"
        self._ledger.bound(pod, node, notes)
        return ""

    def _signed(self, pod: PodRecord, node: str, notes: dict[str, str]) -> dict[str, str]:
        return {**notes, names.SIGNATURE: self._seal.sign(pod.uid, node, notes)}

    def _open(self, pod: PodRecord, notes: dict[str, str], host: str, fence: Fence) -> None:
        self._api.insist("PATCH", pod.path, open_patch(pod, notes, host), WITHIN_S, JSON_PATCH, fence.left_s)

    def _host(self, node: str) -> str:
        known = self._nodes.get(node)
        return known.labels.get(HOST, node) if known is not None else node

    def _is_bound(self, pod: PodRecord, node: str) -> bool:
        """Whether it is bound there after all: an answer was lost, not the order."""
        if any(one.uid == pod.uid and one.node == node for one in self._ledger.gang(pod.key)):
            return True
        try:  # the watch may be behind
            path = f"/api/v1/namespaces/{pod.namespace}/pods"
            rows = self._api.get(path, fieldSelector=f"metadata.name={pod.name}").get("items") or []
        except BackendError:
            return False
        return any(row["metadata"]["uid"] == pod.uid and row["spec"].get("nodeName") == node for row in rows)


def _batches(seatings: Sequence[Seating]) -> Iterator[list[tuple[int, Task]]]:
    """So many pods as can be announced together, with the numbers of their gangs; larger gangs alone are split."""
    batch: list[tuple[int, Task]] = []
    for number, seating in enumerate(seatings):
        gang = [(number, task) for task in seating.tasks()]
        if batch and len(batch) + len(gang) > MOST_ANNOUNCED:
            yield batch
            batch = []
        batch += gang
        while len(batch) > MOST_ANNOUNCED:
            yield batch[:MOST_ANNOUNCED]
            batch = batch[MOST_ANNOUNCED:]
    if batch:
        yield batch


def binding(namespace: str, name: str, uid: str, node: str, notes: dict[str, str]) -> dict[str, object]:
    """The object that binds this very pod, not one of the same name that came after it."""
    return {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": notes},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip
