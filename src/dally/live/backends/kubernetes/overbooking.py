"""Nodes whose pods have more GPUs than there are: a daemon that had lost its lease, or another scheduler."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.pod_gang import PodGang
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord

KUBELET_WAIT_S: Final = 10.0  # for the kubelet to refuse a pod of others that came after ours


class Overbooking:
    """Finds the gangs that have to go back."""

    def __init__(self, ledger: PodLedger, nodes: NodeLedger) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._clean: tuple[Sequence[PodGang], int, int] = (), -1, -1  # gangs among which no node was overbooked
        self._since_s: dict[str, float] = {}  # nodes on which pods of others came last, and when that was seen

    def is_clean(self, gangs: Sequence[PodGang]) -> bool:
        """Whether no node of these gangs is overbooked; looked at again once a gang, pod or node has changed."""
        of, moves, version = self._clean
        now = (self._ledger.moves, self._nodes.version)
        if of is gangs and (moves, version) == now:
            return True
        if self._overbooked({pod.node for gang in gangs for pod in gang.bound}):
            return False
        self._since_s.clear()
        self._clean = (gangs, *now)
        return True

    def later_gangs(self, gangs: Sequence[PodGang]) -> tuple[list[tuple[PodGang, str]], list[str]]:
        """Gangs of ours that go back and why; and what nobody here can resolve, a line each."""
        ours = {gang.key: gang for gang in gangs if gang.bound}
        back: dict[GangKey, tuple[PodGang, str]] = {}
        problems: list[str] = []
        overbooked = self._overbooked({pod.node for gang in ours.values() for pod in gang.bound})
        self._since_s = {name: since_s for name, since_s in self._since_s.items() if name in overbooked}
        for name, total in overbooked.items():
            here = self._ledger.on_node(name)
            taken = sum(pod.needs.gpus for pod in here)
            why = f"pods on {name} have {taken} GPUs, and it has {total}"
            for key in self._latest_first(name, here, ours):
                if taken <= total:
                    break
                back[key] = (ours[key], why)
                taken -= sum(pod.needs.gpus for pod in here if pod.key == key)
            if taken > total:
                problems.append(f"{why}; none that is left there can be stopped here")
        return list(back.values()), problems

    def _overbooked(self, names: set[str]) -> dict[str, int]:
        """Of these nodes, those that are, with their GPUs. A GPU that failed is no overbooking: it was there."""
        result: dict[str, int] = {}
        nodes = self._nodes.by_name()
        full = [
            name for name in names if name in nodes and self._ledger.usage(name).gpus > nodes[name].capacity_gpus
        ]
        for name in sorted(full):  # as far as none of the pods is about to go
            node = nodes[name]
            remaining = sum(pod.needs.gpus for pod in self._ledger.on_node(name) if not pod.stopping)
            if remaining > node.capacity_gpus:
                result[name] = node.capacity_gpus
        return result

    def _latest_first(self, name: str, here: list[PodRecord], ours: dict[GangKey, PodGang]) -> list[GangKey]:
        """Gangs with pods there that can be stopped, those that were bound last before all others."""
        remaining = [pod for pod in here if not pod.stopping and pod.needs.gpus]
        last = max(remaining, key=_bound_order)
        if (
            last.key not in ours
            and time.monotonic() - self._since_s.setdefault(name, time.monotonic()) < KUBELET_WAIT_S
        ):
            return []
        is_refused = last.key not in ours and last.phase == "Pending"  # by the kubelet, which runs others there
        latest: dict[GangKey, tuple[float, float, str]] = {}
        for pod in remaining:
            gang = ours.get(pod.key)
            if is_refused and pod.phase == "Running":
                continue
            if gang is not None and not gang.bare:
                latest[pod.key] = max(latest.get(pod.key, (0.0, 0.0, "")), _bound_order(pod))
        return sorted(latest, key=lambda key: (ours[key].whole, *(-part for part in latest[key][:2]), key))


def _bound_order(pod: PodRecord) -> tuple[float, float, str]:
    """Later is larger: when it was bound, to the second, and when it was created."""
    return pod.bound_s, pod.created_s, pod.uid
