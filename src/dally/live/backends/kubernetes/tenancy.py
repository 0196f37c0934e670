"""Whose job a gang is. Users write what they like on their pods; the server vouches for the namespace alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from dally.live.backends.kubernetes import names

USER: Final = "user"
QUEUE: Final = "queue"
TRUSTED: Final = (USER, QUEUE)  # what may be trusted of pods' labels and annotations
DEFAULT_QUEUE: Final = "default"  # the LocalQueue of pods that name none, as in Kueue

QueueOf = Callable[[str, str], str | None]  # of a namespace and the name of a LocalQueue: its ClusterQueue


class PodOwner(NamedTuple):
    """Who asks for the GPUs of a gang."""

    user: str
    queue: str
    problem: str = ""  # why its queue is not one that it may use


UNKNOWN: Final = PodOwner("", "")


class Tenancy:
    """Reads it from pods, as far as the operator trusts what is written there."""

    def __init__(self, trusted: Collection[str], queue_of: QueueOf | None) -> None:
        """`queue_of`: where Kueue's LocalQueues say which namespace may use which queue."""
        self._trusted = frozenset(trusted)
        self._queue_of = queue_of

    def of(self, namespace: str, stated: Mapping[str, str]) -> PodOwner:
        """For pods of that namespace with these labels and annotations."""
        user = stated.get(names.USER, namespace) if USER in self._trusted else namespace
        queue = next((stated[name] for name in names.QUEUES if stated.get(name)), "")
        if self._queue_of is None:
            return PodOwner(user, queue if QUEUE in self._trusted else "")
        of_kueue = self._queue_of(namespace, queue or DEFAULT_QUEUE)
        problem = f"namespace {namespace} has no LocalQueue {queue}" if queue and of_kueue is None else ""
        return PodOwner(user, of_kueue or "", problem)
