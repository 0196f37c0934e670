"""Whether pods fit where they are to go: the server binds anything to anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.neighbours import Neighbours
from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.node_record import NodeRecord, why_not
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_needs import Needs, total_needs
from dally.live.backends.kubernetes.pod_record import PodRecord
from dally.live.backends.kubernetes.volume_claims import VolumeClaims

SLACK = 1e-6  # of sums of fractions


class NodeRoom:
    """What pods leave of the nodes."""

    def __init__(self, ledger: PodLedger, nodes: NodeLedger, neighbours: Neighbours, claims: VolumeClaims) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._neighbours = neighbours
        self._claims = claims
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
            refusal = next(
                filter(None, (why_not(pod, node) or self._claims.why_not(pod, node) for pod in here)), ""
            )
            if refusal:
                raise BackendError(refusal)
            self._check_node(node, here)
        ours = {pod.uid for pod in pods}
        coming = [
            (pod, name) for name, there in self._reserved.items() for pod in there.values() if pod.uid not in ours
        ]
        refusal = self._neighbours.refusal(pods, seats, coming)
        if refusal:
            raise BackendError(refusal)

    def _check_node(self, node: NodeRecord, here: Sequence[PodRecord]) -> None:
        new = {pod.uid for pod in here}
        known = {pod.uid: pod for pod in self._ledger.on_node(node.name)} | self._reserved.get(node.name, {})
        there = [pod for uid, pod in known.items() if uid not in new]
        free, request = _amounts(node.room), _amounts(total_needs(pod.needs for pod in here))
        taken = _amounts(total_needs(pod.needs for pod in there))
        for name, amount in request.items():
            left = free.get(name, 0.0) - taken.get(name, 0.0)
            if amount > max(0.0, left) + SLACK:
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
