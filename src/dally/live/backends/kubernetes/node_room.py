"""Whether pods fit where they are to go: the server binds anything to anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.node_record import NodeRecord, why_not
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_needs import Needs, total_needs
from dally.live.backends.kubernetes.pod_record import PodRecord

SLACK = 1e-6  # of sums of fractions


class NodeRoom:
    """What pods leave of the nodes."""

    def __init__(self, ledger: PodLedger, nodes: NodeLedger) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._reserved: dict[str, dict[str, PodRecord]] = {}  # by node and uid: about to be bound

    @contextmanager
    def reserved(self, pods: Sequence[PodRecord], seats: Sequence[str]) -> Iterator[None]:
        """The same as `check`, and nobody else gets that room during the block."""
        self.check(pods, seats)
        for pod, seat in zip(pods, seats, strict=True):
            self._reserved.setdefault(seat, {})[pod.uid] = pod
        try:
            yield
        finally:
            for pod, seat in zip(pods, seats, strict=True):
                self._reserved[seat].pop(pod.uid, None)

    def check(self, pods: Sequence[PodRecord], seats: Sequence[str]) -> None:
        """A BackendError unless each pod may run on its node and all of them fit at once."""
        for name in dict.fromkeys(seats):
            node = self._nodes.get(name)
            if node is None or not self._nodes.knows(name):
                raise BackendError(f"there is no machine {name}")
            if node.state != base.UP:
                raise BackendError(f"{name} takes no pods: {node.reason}")
            here = [pod for pod, seat in zip(pods, seats, strict=True) if seat == name]
            refusal = next(filter(None, (why_not(pod, node) for pod in here)), "")
            if refusal:
                raise BackendError(refusal)
            self._check_node(node, here)

    def _check_node(self, node: NodeRecord, here: Sequence[PodRecord]) -> None:
        new = {pod.uid for pod in here}
        known = {pod.uid: pod for pod in self._ledger.on_node(node.name)} | self._reserved.get(node.name, {})
        there = [pod for uid, pod in known.items() if uid not in new]
        free, request = _amounts(node.room), _amounts(total_needs(pod.needs for pod in here))
        taken = _amounts(total_needs(pod.needs for pod in there))
        for name, amount in request.items():
            left = free.get(name, 0.0) - taken.get(name, 0.0)
            if amount > left + SLACK:
                raise BackendError(f"{node.name} has {left:g} {name} free, not {amount:g}")

    def has(self, pods: Sequence[PodRecord], seats: Sequence[str]) -> bool:
        """The same as a yes or no."""
        try:
            self.check(pods, seats)
        except BackendError:
            return False
        return True


def _amounts(needs: Needs) -> dict[str, float]:
    """By name, as people read them."""
    return {"GPUs": needs.gpus, "CPUs": needs.cpus, "GB of memory": needs.memory / 1e9, **dict(needs.others)}
