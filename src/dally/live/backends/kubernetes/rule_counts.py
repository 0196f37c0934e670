"""What the pods that are there mean for where one more pod may go, as kube-scheduler's filters have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from dally.live.backends.kubernetes.node_record import NodeRecord, fits
from dally.live.backends.kubernetes.pod_record import PodRecord
from dally.live.backends.kubernetes.pod_rules import PodTerm, SpreadRule
from dally.live.backends.kubernetes.taints import untolerated

UNLABELLED: Final = "{node} has no label {key}, by which its pods are {how}"


class RuleCounts:
    """Pods by domain (the value of a label of nodes), counted as the rules of one pod ask; more may be added."""

    def __init__(self, pod: PodRecord, nodes: Collection[NodeRecord], by_name: Mapping[str, NodeRecord]) -> None:
        self._pod = pod
        self._nodes = by_name
        self._apart: Counter[tuple[str, str]] = Counter()
        self._near: list[Counter[str]] = [Counter() for _ in pod.rules.near]
        self._spread = [SpreadCount(rule, pod, nodes) for rule in pod.rules.spread]
        self._taken: set[str] = set()  # nodes on which its host ports are in use

    @property
    def keys(self) -> set[str]:
        """The labels of nodes that matter."""
        rules = self._pod.rules
        terms = (*rules.near, *rules.apart, *(rule.pods for rule in rules.spread))
        return {term.key for term in terms} | {key for key, _ in self._apart}

    @property
    def taken(self) -> set[str]:
        """Nodes on which its host ports are in use."""
        return self._taken

    def add(self, other: PodRecord, name: str) -> None:
        """Another pod is on that node."""
        node, mine = self._nodes.get(name), self._pod
        if node is None or other.uid == mine.uid:
            return
        rules = mine.rules
        if any(port.conflicts(one) for port in rules.ports for one in other.rules.ports):
            self._taken.add(name)
        for term in rules.apart:
            if term.key in node.labels and _matches(term, other):
                self._apart[term.key, node.labels[term.key]] += 1
        for term in other.rules.apart:
            if term.key in node.labels and _matches(term, mine):
                self._apart[term.key, node.labels[term.key]] += 1
        if rules.near and all(_matches(term, other) for term in rules.near):
            for term, counts in zip(rules.near, self._near, strict=True):
                if term.key in node.labels:
                    counts[node.labels[term.key]] += 1
        for spread in self._spread:
            spread.add(other, node)

    def why_not(self, node: NodeRecord) -> str:
        """Why the pod may not go there; empty if it may."""
        if node.name in self._taken:
            ports = ", ".join(f"{port.protocol} {port.port}" for port in self._pod.rules.ports)
            return f"a host port of pod {self._pod.name} ({ports}) is in use on {node.name}"
        reasons = (self.why_not_domain(key, node.labels.get(key), node.name) for key in sorted(self.keys))
        return next(filter(None, reasons), "")

    def why_not_domain(self, key: str, value: str | None, node: str = "the node") -> str:
        """Why no node with that value of the label will do (None: without the label); empty if some may."""
        is_first = not any(self._near) and all(_matches(term, self._pod) for term in self._pod.rules.near)
        for term, counts in zip(self._pod.rules.near, self._near, strict=True):
            if term.key == key and value is None:
                return UNLABELLED.format(node=node, key=key, how="kept together")
            if term.key == key and not is_first and not counts[value or ""]:
                return f"pod affinity of pod {self._pod.name}: no pod that it must be near is in {key}={value}"
        for spread in self._spread:
            if spread.rule.pods.key == key:
                if value is None:
                    return UNLABELLED.format(node=node, key=key, how="spread")
                if not spread.has_room(value):
                    return f"spread constraint of pod {self._pod.name}: {key}={value} has too many of its pods"
        if value is not None and self._apart[key, value]:
            return f"pod anti-affinity keeps pod {self._pod.name} out of {key}={value}"
        return ""


class SpreadCount:
    """Pods of one spread constraint by domain."""

    def __init__(self, rule: SpreadRule, pod: PodRecord, nodes: Iterable[NodeRecord]) -> None:
        self.rule = rule
        self._self_match = int(_matches(rule.pods, pod))
        keys = [one.pods.key for one in pod.rules.spread]
        chosen = [node for node in nodes if all(key in node.labels for key in keys) and self._counts(node, pod)]
        self._names = {node.name for node in chosen}
        self._pods: dict[str, int] = dict.fromkeys((node.labels[rule.pods.key] for node in chosen), 0)

    def _counts(self, node: NodeRecord, pod: PodRecord) -> bool:
        if self.rule.honours_affinity and not fits(pod.selector, node):
            return False
        return not self.rule.honours_taints or untolerated(node.taints, pod.tolerations) is None

    def add(self, other: PodRecord, node: NodeRecord) -> None:
        """Another pod is on that node; one that goes does not count."""
        if node.name in self._names and not other.stopping and _matches(self.rule.pods, other):
            self._pods[node.labels[self.rule.pods.key]] += 1

    def has_room(self, value: str) -> bool:
        """Whether one more pod may be in that domain."""
        if not self._pods:
            return True
        least = min(self._pods.values()) if len(self._pods) >= self.rule.least_domains else 0
        return self._pods.get(value, 0) + self._self_match - least <= self.rule.skew


def _matches(term: PodTerm, pod: PodRecord) -> bool:
    return term.matches(pod.namespace, pod.labels)
