"""Whether pods fit where they are to go: the server binds anything to anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.node_record import NodeRecord, fits
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import PodRecord

UNITS = (("GPUs", 1.0), ("CPUs", 1.0), ("GB of memory", 1e9))


class Room:
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
            stranger = next((pod for pod in here if not fits(pod.selector, node)), None)
            if stranger is not None:
                raise BackendError(
                    f"the node selector or affinity of pod {stranger.name} does not let it on {name}"
                )
            self._check_node(node, here)

    def _check_node(self, node: NodeRecord, here: Sequence[PodRecord]) -> None:
        new = {pod.uid for pod in here}
        known = {pod.uid: pod for pod in self._ledger.on_node(node.name)} | self._reserved.get(node.name, {})
        there = [pod for uid, pod in known.items() if uid not in new]
        for place, (unit, size) in enumerate(UNITS):
            request = sum(pod.needs[place] for pod in here)
            free = node.room[place] - sum(pod.needs[place] for pod in there)
            if request > free:
                raise BackendError(f"{node.name} has {free / size:g} {unit} free, not {request / size:g}")

    def has(self, pods: Sequence[PodRecord], seats: Sequence[str]) -> bool:
        """The same as a yes or no."""
        try:
            self.check(pods, seats)
        except BackendError:
            return False
        return True
