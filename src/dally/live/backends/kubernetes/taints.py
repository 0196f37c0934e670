"""Taints of nodes, and which pods tolerate them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from dally.live.backends.kubernetes.kube_api import Entry

BARS: Final = frozenset(("NoSchedule", "NoExecute"))


class Taint(NamedTuple):
    """What keeps pods away that do not tolerate it."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """An empty key or effect: all of them."""

    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """Whether the pod may run in spite of the taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


def taints_of(spec: Entry) -> tuple[Taint, ...]:
    """Those of a node that keep pods away."""
    rows = [row for row in spec.get("taints") or () if row.get("effect") in BARS]
    return tuple(Taint(str(row.get("key")), str(row.get("value") or ""), row["effect"]) for row in rows)


def tolerations_of(spec: Entry) -> tuple[Toleration, ...]:
    """Those of a pod."""
    rows = spec.get("tolerations") or ()
    return tuple(
        Toleration(*(str(row.get(name) or usual) for name, usual in _FIELDS))
        for row in rows
    )  # fmt: skip


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the pod away."""
    accepted = tuple(tolerations)
    return next((taint for taint in taints if not any(one.covers(taint) for one in accepted)), None)


_FIELDS: Final = (("key", ""), ("operator", "Equal"), ("value", ""), ("effect", ""))
