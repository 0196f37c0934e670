"""Bindings about to be sent, written on the lease first: a leader may stop between its last check and a request.

Whoever leads next binds those pods as announced before it looks at the cluster. A late request of the former leader
then finds its pod bound where it was to go, and no GPU is given twice.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.leader import Leader

Row = list[Any]


class AnnouncedBinding(NamedTuple):
    """A pod that may or may not be bound there by now, and what is written on it."""

    namespace: str
    pod: str
    uid: str
    node: str
    rank: str
    placement: str
    tier: str


class OrderJournal:
    """What the lease says of the present batch of bindings."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def announce(self, bindings: Iterable[AnnouncedBinding]) -> None:
        """Before any of them is sent; a BackendError: none may be."""
        text = encode(bindings)
        if text:
            self._leader.announce(text)

    def clear(self) -> None:
        """All have been answered; the lease says so with its next renewal."""
        self._leader.announced = ""

    def announced(self) -> list[AnnouncedBinding]:
        """Those of whoever led before."""
        return list(decode(self._leader.announced))


def encode(bindings: Iterable[AnnouncedBinding]) -> str:
    """A gang's pods in one row; nothing for no pods."""
    gangs: dict[tuple[str, str], list[Row]] = {}
    for one in bindings:
        gangs.setdefault((one.placement, one.tier), []).append([*one[:5]])
    if not gangs:
        return ""
    rows = [[*about, pods] for about, pods in gangs.items()]
    return base64.b85encode(zlib.compress(json.dumps(rows).encode(), 1)).decode()


def decode(text: str) -> Iterator[AnnouncedBinding]:
    """The same, backwards; a BackendError if it is none of ours."""
    if not text:
        return
    try:
        rows = json.loads(zlib.decompress(base64.b85decode(text)))
        bindings = [AnnouncedBinding(*map(str, (*pod, *about))) for *about, pods in rows for pod in pods]
    except (ValueError, TypeError, zlib.error):
        raise BackendError("the lease announces orders that cannot be read: remove its annotation") from None
    yield from bindings
