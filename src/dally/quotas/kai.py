"""Queues of the KAI scheduler: `kubectl get queues.scheduling.run.ai -o yaml`, or the files they were made of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dally.errors import at
from dally.model import INFINITY
from dally.quotas.kube_yaml import KubeThing, chain, things_of
from dally.quotas.tree import ANY_TYPE, QueueNode, QueueTree, Quota, checked, with_parents

USUAL_PRIORITY: Final = 100.0  # of a queue that states none, beside others that do


def read_kai(path: Path, text: str) -> QueueTree:
    """The tree of the file's queues; jobs name the leaf they belong to."""
    things = {thing.name: thing for thing in things_of(path, text) if thing.kind == "Queue"}
    above = {name: thing.spec.text("parentQueue") for name, thing in things.items()}
    for name, parent in above.items():
        if parent and parent not in things:
            raise things[name].spec.wrong("parentQueue", "no such queue in the file")
    ranked = any("priority" in thing.spec for thing in things.values())
    parents, notes = set(above.values()), dict[str, None]()
    nodes = []
    for name, thing in things.items():
        quota, weight = _quota(path, thing, name in parents, notes)
        priority = thing.spec.number("priority")
        nodes.append(
            QueueNode(
                chain(path, name, above, thing.line),
                {ANY_TYPE: quota} if quota != Quota() else {},
                weight,
                priority if priority is not None else USUAL_PRIORITY if ranked else 0.0,
                min_runtime_s=_min_runtime_s(name, things, above),
                matches={} if name in parents else {"queue": (name,)},
                line=thing.line,
            )
        )
    return checked(path, QueueTree(with_parents(nodes), str(path), notes=notes))


def _quota(path: Path, thing: KubeThing, inner: bool, notes: dict[str, None]) -> tuple[Quota, float]:
    """What the queue is due of GPUs, and its weight; -1 stands for no bound."""
    gpu = thing.spec.inside("resources").inside("gpu")
    amounts: dict[str, float] = {}
    for key in ("quota", "limit", "overQuotaWeight", "lendingLimit"):
        value = gpu.number(key)
        if value is None:
            continue
        if value < 0.0 and (value != -1.0 or key not in ("quota", "limit")):
            raise gpu.wrong(
                key, "must not be negative" + (", except -1: no bound" if key in ("quota", "limit") else "")
            )
        amounts[key] = INFINITY if value < 0.0 else value
    limit, weight = amounts.get("limit", INFINITY), amounts.get("overQuotaWeight", 1.0)
    guarantee = amounts.get("quota", 0.0)
    if guarantee == INFINITY:
        guarantee = 0.0 if inner or limit == INFINITY else limit
        if not inner and limit == INFINITY:
            notes[f"{thing.name}: a quota of -1 with no limit guarantees all there is: taken as no guarantee"] = (
                None
            )
    if weight == 0.0:
        limit = min(limit, guarantee) if guarantee <= limit else limit
        notes[f"{thing.name}: overQuotaWeight 0 takes no surplus: its limit is its quota"] = None
    if guarantee > limit:
        raise at(path, thing.line, f"{thing.name}: limit", f"{limit:g}: below the quota of {guarantee:g}")
    return Quota(guarantee, limit, amounts.get("lendingLimit", INFINITY)), weight or 1.0


def _min_runtime_s(name: str, things: dict[str, KubeThing], above: dict[str, str]) -> float:
    """reclaimMinRuntime, its own or that of the closest queue above that states one."""
    while name:
        result = things[name].spec.seconds("reclaimMinRuntime")
        if result is not None:
            return result
        name = above[name]
    return QueueNode("").min_runtime_s
