"""Kueue: ClusterQueues below Cohorts, LocalQueues that lead to them, ResourceFlavors that say of which GPUs.

A ClusterQueue may borrow what others of its cohort do not use, never more than is written down in the cohort: that
is the limit of the topmost one. A Cohort's own quota comes on top of what is below it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import at
from dally.model import INFINITY
from dally.quotas.kube_yaml import KubeFields, KubeThing, chain, things_of
from dally.quotas.tree import ANY_TYPE, QueueNode, QueueTree, Quota, checked, with_parents
from dally.traces.readers.kube_objects import GPU, PRODUCT_LABEL

HELD: Final = ("Hold", "HoldAndDrain")
MARK: Final = "cohort "  # before the name of one: a queue's may be the same
MIN_RUNTIME: Final = "dally.io/min-runtime"  # an annotation: Kueue itself has no such thing
USUAL: Final = QueueNode("")
KINDS: Final = ("ClusterQueue", "Cohort", "LocalQueue", "PriorityClass", "ResourceFlavor")


class _Amounts(NamedTuple):
    """Of one type of GPU."""

    nominal: float
    borrow: float
    lend: float


def read_kueue(path: Path, text: str) -> QueueTree:
    """The tree of the file's objects."""
    things = [thing for thing in things_of(path, text) if thing.kind in KINDS]
    return _KueueReader(path, things).tree()


class _KueueReader:
    """Puts the objects of one file together."""

    def __init__(self, path: Path, things: list[KubeThing]) -> None:
        self._path = path
        self._of = {kind: [thing for thing in things if thing.kind == kind] for kind in KINDS}
        self._notes: dict[str, None] = {}
        self._types: list[str] = []
        self._products = {thing.name: self._product(thing) for thing in self._of["ResourceFlavor"]}
        queues = self._of["ClusterQueue"]
        used = {flavor.text("name") for thing in (*queues, *self._of["Cohort"]) for flavor in _flavors(thing)}
        self._one_flavor = len(used) < 2
        self._above = {thing.name: self._cohort(thing) for thing in queues}
        self._above |= {MARK + thing.name: self._cohort(thing) for thing in self._of["Cohort"]}

    def tree(self) -> QueueTree:
        cohorts = {MARK + thing.name: thing for thing in self._of["Cohort"]}
        queues = {thing.name: thing for thing in self._of["ClusterQueue"]}
        paths = {name: self._path_of(name, thing.line) for name, thing in (cohorts | queues).items()}
        for name, thing in queues.items():
            if paths[name] in [paths[cohort] for cohort in cohorts]:
                raise at(self._path, thing.line, thing.name, "a ClusterQueue and a Cohort have this name")
        stated = {name: self._amounts(thing) for name, thing in (cohorts | queues).items()}
        for above in [above for above in self._above.values() if above]:
            self._above.setdefault(above, "")
            stated.setdefault(above, {})
        totals = {name: self._total(name, stated) for name in stated}
        self._types = list(dict.fromkeys(gpu_type for result in totals.values() for gpu_type in result))
        nodes = [self._node(name, thing, stated, totals) for name, thing in (cohorts | queues).items()]
        written = {node.path for node in nodes}
        for name in stated:  # cohorts that are only named
            path = self._path_of(name, 1)
            if path not in written:
                nodes.append(QueueNode(path, _root_quotas(totals[name]) if not self._above[name] else {}))
        if any("preemption" in thing.spec for thing in queues.values()):
            self._notes["preemption: not read; lent GPUs are reclaimed as docs/queues.md says"] = None
        return checked(
            self._path, QueueTree(with_parents(nodes), str(self._path), notes=self._notes, classes=self._classes())
        )

    def _classes(self) -> dict[str, float]:
        """The least priority of each class; of those of one value the first."""
        result: dict[str, float] = {}
        for thing in self._of["PriorityClass"]:
            value = thing.top.number("value") or 0.0
            if value not in result.values():
                result[thing.name] = value
        return result

    def _node(
        self,
        name: str,
        thing: KubeThing,
        stated: dict[str, dict[str, _Amounts]],
        totals: dict[str, dict[str, float]],
    ) -> QueueNode:
        weight = thing.spec.inside("fairSharing").number("weight")
        if weight is not None and weight < 0.0:
            raise thing.spec.inside("fairSharing").wrong("weight", "must not be negative")
        if weight == 0.0:
            self._notes[f"{thing.name}: weight 0 comes after all others: priority -1"] = None
        min_runtime_s = thing.notes.seconds(MIN_RUNTIME)
        inner = name.startswith(MARK)
        quotas = {
            gpu_type: _quota(total, stated[name].get(gpu_type), bool(self._above[name]))
            for gpu_type, total in totals[name].items()
        }
        if not inner:  # GPUs of a type that it does not list it cannot have
            quotas |= {gpu_type: Quota(0.0, 0.0) for gpu_type in self._types if gpu_type not in quotas}
        return QueueNode(
            self._path_of(name, thing.line),
            {gpu_type: quota for gpu_type, quota in quotas.items() if quota != Quota()},
            weight or 1.0,
            -1.0 if weight == 0.0 else 0.0,
            min_runtime_s=USUAL.min_runtime_s if min_runtime_s is None else min_runtime_s,
            hold=thing.spec.text("stopPolicy") in HELD,
            matches={} if inner else self._matches(thing.name),
            line=thing.line,
        )

    def _path_of(self, name: str, line: int) -> str:
        return chain(self._path, name, self._above, line).replace(MARK, "")

    def _total(self, name: str, stated: dict[str, dict[str, _Amounts]]) -> dict[str, float]:
        """What is written down for a queue, or for a cohort and all below it, by type."""
        result = {gpu_type: amounts.nominal for gpu_type, amounts in stated[name].items()}
        for below in [below for below, above in self._above.items() if above == name]:
            for gpu_type, gpus in self._total(below, stated).items():
                result[gpu_type] = result.get(gpu_type, 0.0) + gpus
        return result

    def _cohort(self, thing: KubeThing) -> str:
        """The cohort above, by any of its field's names so far."""
        keys = ("parentName", "parent") if thing.kind == "Cohort" else ("cohortName", "cohort")
        return next((MARK + thing.spec.text(key) for key in keys if key in thing.spec), "")

    def _amounts(self, thing: KubeThing) -> dict[str, _Amounts]:
        """GPUs by type, flavours of one type added up."""
        result: dict[str, _Amounts] = {}
        for flavor in _flavors(thing):
            gpu_type = self._gpu_type(flavor)
            for resource in flavor.each("resources"):
                if GPU.fullmatch(resource.text("name")):
                    more = _Amounts(
                        _count(resource, "nominalQuota", 0.0),
                        _count(resource, "borrowingLimit", INFINITY),
                        _count(resource, "lendingLimit", INFINITY),
                    )
                    known = result.get(gpu_type, _Amounts(0.0, 0.0, 0.0))
                    result[gpu_type] = _Amounts(*(one + other for one, other in zip(known, more, strict=True)))
        return result

    def _gpu_type(self, flavor: KubeFields) -> str:
        """The product that the flavour's nodes are labelled with; else its name, unless there is no other."""
        name = flavor.text("name")
        if not name:
            raise flavor.wrong("name", "every flavor has one")
        if self._products.get(name):
            return self._products[name]
        if self._one_flavor:
            return ANY_TYPE
        self._notes[f"flavor {name}: no label {PRODUCT_LABEL}: its name is taken for the type of GPU"] = None
        return name

    def _product(self, thing: KubeThing) -> str:
        return thing.spec.inside("nodeLabels").text(PRODUCT_LABEL)

    def _matches(self, queue: str) -> dict[str, tuple[str, ...]]:
        """Jobs name the ClusterQueue or a LocalQueue; where two have one name, the namespace tells."""
        names, namespaces = [queue], []
        for local in [thing for thing in self._of["LocalQueue"] if thing.spec.text("clusterQueue") == queue]:
            if self._leads_to("name", local.name) == {queue}:
                names.append(local.name)
            elif local.namespace and self._leads_to("namespace", local.namespace) == {queue}:
                namespaces.append(local.namespace)
            else:
                self._notes[f"LocalQueue {local.namespace}/{local.name}: neither name nor namespace is its own"] = (
                    None
                )
        result = {"queue": tuple(dict.fromkeys(names)), "account": tuple(dict.fromkeys(namespaces))}
        return {fact: values for fact, values in result.items() if values}

    def _leads_to(self, field: str, value: str) -> set[str]:
        """ClusterQueues that LocalQueues of this name or namespace lead to, and the one of this name."""
        locals_ = [thing for thing in self._of["LocalQueue"] if getattr(thing, field) == value]
        result = {thing.spec.text("clusterQueue") for thing in locals_}
        own = [thing.name for thing in self._of["ClusterQueue"] if field == "name" and thing.name == value]
        return result.union(own)


def _flavors(thing: KubeThing) -> list[KubeFields]:
    """The flavours of all resource groups that give GPUs."""
    result = [flavor for group in thing.spec.each("resourceGroups") for flavor in group.each("flavors")]
    return [
        flavor for flavor in result if any(GPU.fullmatch(item.text("name")) for item in flavor.each("resources"))
    ]


def _count(resource: KubeFields, key: str, otherwise: float) -> float:
    value = resource.number(key)
    if value is not None and value < 0.0:
        raise resource.wrong(key, "must not be negative")
    return otherwise if value is None else value


def _quota(total: float, stated: _Amounts | None, has_cohort: bool) -> Quota:
    """With nobody to borrow from, what is written down is all that can be had."""
    if not has_cohort:
        return Quota(total, total)
    return Quota(total, total + stated.borrow, stated.lend) if stated else Quota()


def _root_quotas(totals: dict[str, float]) -> dict[str, Quota]:
    return {gpu_type: Quota(total, total) for gpu_type, total in totals.items()}
