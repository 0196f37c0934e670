"""Where pods may go for the pods that are there: host ports, pod affinity and anti-affinity, spread constraints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord
from dally.live.backends.kubernetes.pod_rules import HOSTNAME, NO_RULES, PodTerm
from dally.live.backends.kubernetes.rule_counts import RuleCounts

CROWDED: Final = "the pods that are there now leave it too few nodes: {why}"


class GangRoom(NamedTuple):
    """What the rules of a gang's pods leave it."""

    allowed: frozenset[str] | None = None  # None: all nodes
    apart: bool = False  # no two of its pods share a node
    problem: str = ""  # a rule among its own pods that is not modelled
    blocked: str = ""  # too few nodes as things are


ALL_NODES: Final = GangRoom()


class Neighbours:
    """Looks at all pods that are bound, and once only until one of them changes."""

    def __init__(self, ledger: PodLedger, nodes: NodeLedger) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._version = (-1, -1)
        self._placed: list[PodRecord] = []
        self._with_ports: list[PodRecord] = []
        self._apart_names: set[str] = set()  # labels that their anti-affinity asks for
        self._by_label: dict[str, dict[str, list[PodRecord]]] = {}
        self._known: dict[tuple[object, ...], tuple[frozenset[str], str]] = {}
        self._chosen: dict[tuple[GangKey, str], str] = {}  # domains of gangs whose pods must be near each other

    def room_of(self, pods: Sequence[PodRecord], gpus: Mapping[str, int]) -> GangRoom:
        """What is left to a gang of these pods; `gpus` of the nodes that it may use otherwise."""
        if not (_have_rules(pods) or self._ledger.with_apart()):
            return ALL_NODES
        apart, problem = _among_themselves(pods)
        if problem:
            return GangRoom(problem=problem)
        self._renew()
        answers = [self._allowed(key, pod) for key, pod in {self._class_of(pod): pod for pod in pods}.items()]
        allowed = frozenset.intersection(*(names for names, _ in answers))
        if len(pods) > 1:
            allowed = self._one_domain(pods, allowed, gpus)
        if allowed.issuperset(gpus):
            return GangRoom(apart=apart)
        each = max(pod.needs.gpus for pod in pods)
        left = {name: count for name, count in gpus.items() if name in allowed}
        if _seats(left, each, apart) >= len(pods) or _seats(gpus, each, apart) < len(pods):
            return GangRoom(frozenset(left), apart)
        why = next((reason for _, reason in answers if reason), "its pods must be near each other")
        return GangRoom(frozenset(left), apart, blocked=CROWDED.format(why=why))

    def forget(self, key: GangKey) -> None:
        """The gang waits no more."""
        for one in [one for one in self._chosen if one[0] == key]:
            del self._chosen[one]

    def refusal(
        self, pods: Sequence[PodRecord], seats: Sequence[str], coming: Iterable[tuple[PodRecord, str]] = ()
    ) -> str:
        """Why these pods may not go there, one after the other; empty if they may. `coming`: about to be bound."""
        coming = [*coming]
        if not (_have_rules(pods) or self._ledger.with_apart() or any(other.rules.apart for other, _ in coming)):
            return ""
        self._renew()
        seated: list[tuple[PodRecord, str]] = []
        counts: dict[tuple[object, ...], RuleCounts] = {}
        for pod, seat in zip(pods, seats, strict=True):
            key = self._class_of(pod)
            if key not in counts:
                counts[key] = self._counts(pod, leave_out={one.uid for one in pods})
                for other, node in (*coming, *seated):
                    counts[key].add(other, node)
            node_record = self._nodes.get(seat)
            reason = counts[key].why_not(node_record) if node_record is not None else f"there is no node {seat}"
            if reason:
                return reason
            seated.append((pod, seat))
            for one in counts.values():
                one.add(pod, seat)
        return ""

    # One class of pods: those to which the same rules apply.

    def _class_of(self, pod: PodRecord) -> tuple[object, ...]:
        rules = pod.rules
        terms = [*rules.near, *rules.apart, *(rule.pods for rule in rules.spread)]
        names = {rule.name for term in terms for rule in term.selector} | self._apart_names
        labels = tuple(sorted((name, pod.labels[name]) for name in names if name in pod.labels))
        node_rules = repr((pod.selector, pod.tolerations)) if rules.spread else ""
        return pod.namespace, rules._replace(claims=()), labels, node_rules

    def _allowed(self, key: tuple[object, ...], pod: PodRecord) -> tuple[frozenset[str], str]:
        """Nodes where one such pod may be, and why not the others."""
        if key not in self._known:
            counts = self._counts(pod)
            names, reason = frozenset(self._nodes.by_name()), ""
            for label in sorted(counts.keys):
                domains = self._nodes.domains(label)
                refused = {value: why for value in domains if (why := counts.why_not_domain(label, value))}
                for value, why in refused.items():
                    names, reason = names - domains[value], reason or why
            if counts.taken:
                names, reason = names - counts.taken, reason or "a host port of its pods is in use there"
            self._known[key] = names, reason
        return self._known[key]

    def _counts(self, pod: PodRecord, leave_out: Collection[str] = ()) -> RuleCounts:
        nodes = self._nodes.by_name()
        result = RuleCounts(pod, nodes.values(), nodes)
        rules = pod.rules
        relevant: dict[str, PodRecord] = {other.uid: other for other in self._ledger.with_apart()}
        if rules.ports:
            relevant.update((other.uid, other) for other in self._with_ports)
        for term in (*rules.apart, *(rule.pods for rule in rules.spread), *rules.near):
            relevant.update((other.uid, other) for other in self._candidates(term))
        for other in relevant.values():
            if other.uid not in leave_out:
                result.add(other, other.node)
        return result

    def _candidates(self, term: PodTerm) -> Iterable[PodRecord]:
        """Pods among which are all that the term means, by one label where that can be."""
        named = next((rule for rule in term.selector if rule.present and rule.values is not None), None)
        if named is None:
            return self._placed
        if named.name not in self._by_label:
            index: defaultdict[str, list[PodRecord]] = defaultdict(list)
            for pod in self._placed:
                if named.name in pod.labels:
                    index[pod.labels[named.name]].append(pod)
            self._by_label[named.name] = index
        by_value = self._by_label[named.name]
        return [pod for value in named.values or () for pod in by_value.get(value, ())]

    def _renew(self) -> None:
        version = (self._ledger.moves, self._nodes.version)
        if version != self._version:
            self._version = version
            self._placed = self._ledger.placed()
            self._with_ports = [pod for pod in self._placed if pod.rules.ports]
            apart = (term for pod in self._ledger.with_apart() for term in pod.rules.apart)
            self._apart_names = {rule.name for term in apart for rule in term.selector}
            self._by_label, self._known = {}, {}

    def _one_domain(
        self, pods: Sequence[PodRecord], allowed: frozenset[str], gpus: Mapping[str, int]
    ) -> frozenset[str]:
        """Of a gang whose pods must be near each other: the domain with most GPUs free, as long as they suffice."""
        need = sum(pod.needs.gpus for pod in pods)
        for term in dict.fromkeys(term for pod in pods for term in pod.rules.near):
            if not all(_means(term, pod) for pod in pods):
                continue
            domains = self._nodes.domains(term.key)
            inside = {value: allowed & names & gpus.keys() for value, names in domains.items() if value is not None}
            free = {value: sum(map(self._free, names)) for value, names in inside.items()}
            chosen = self._chosen.get((pods[0].key, term.key), "")
            if not inside.get(chosen) or free[chosen] < need:
                most = {value: sum(gpus[name] for name in names) for value, names in inside.items()}
                order = sorted(
                    inside, key=lambda value: (most[value] < need, -free[value], not inside[value], value)
                )
                chosen = self._chosen[pods[0].key, term.key] = order[0] if order else ""
            allowed = inside.get(chosen, frozenset())
        return allowed

    def _free(self, name: str) -> int:
        node = self._nodes.get(name)
        return 0 if node is None else max(0, node.room.gpus - self._ledger.usage(name).gpus)


def _among_themselves(pods: Sequence[PodRecord]) -> tuple[bool, str]:
    """Whether no two pods of the gang may share a node; and a rule among them that is not modelled."""
    if len(pods) < 2 or not _have_rules(pods):
        return False, ""
    apart = _share_ports(pods)
    for pod in {pod.rules: pod for pod in pods}.values():
        for term in pod.rules.apart:
            if any(_means(term, other) for other in pods if other is not pod):
                if term.key != HOSTNAME:
                    return False, f"required podAntiAffinity among its own pods by {term.key}"
                apart = True
        for term in pod.rules.near:
            count = sum(_means(term, other) for other in pods)
            if 0 < count < len(pods):
                return False, "required podAffinity to some of its own pods"
        for rule in pod.rules.spread:
            if any(_means(rule.pods, other) for other in pods):
                return False, "topologySpreadConstraints with DoNotSchedule among its own pods"
    if apart and len({pod.needs.gpus for pod in pods}) > 1:
        return False, "pods of different sizes of which no two may share a node"
    return apart, ""


def _have_rules(pods: Sequence[PodRecord]) -> bool:
    return any(pod.rules != NO_RULES for pod in pods)


def _seats(gpus: Mapping[str, int], each: int, apart: bool) -> int:
    """Pods of so many GPUs each that there is room for."""
    return sum(min(count // each, 1) if apart else count // each for count in gpus.values())


def _share_ports(pods: Sequence[PodRecord]) -> bool:
    """Whether two of them ask for one host port."""
    seen: set[object] = set()
    for pod in pods:
        for port in set(pod.rules.ports):
            if any(port.conflicts(other) for other in seen):  # type: ignore[arg-type]
                return True
        seen.update(pod.rules.ports)
    return False


def _means(term: PodTerm, pod: PodRecord) -> bool:
    return term.matches(pod.namespace, pod.labels)
