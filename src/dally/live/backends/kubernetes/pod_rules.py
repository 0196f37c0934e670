"""What a pod asks of the pods beside it and of its volumes: host ports, affinity, spread, claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.label_selector import LabelRule

HOSTNAME: Final = "kubernetes.io/hostname"
ANY_ADDRESS: Final = "0.0.0.0"
NONE_MATCHES: Final = (LabelRule("", True, ()),)  # of a selector that is not there
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
EXCLUSIVE_DISKS: Final = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi", "azureDisk", "cinder")


class HostPort(NamedTuple):
    """A port of the node itself."""

    address: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Whether both cannot be had at once."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.address == other.address or ANY_ADDRESS in (self.address, other.address))


class PodTerm(NamedTuple):
    """Pods with these labels in these namespaces (None: in all), and the label of nodes that names domains."""

    namespaces: frozenset[str] | None
    selector: tuple[LabelRule, ...]
    key: str

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether such a pod is meant."""
        inside = self.namespaces is None or namespace in self.namespaces
        return inside and all(rule.fits(labels) for rule in self.selector)


class SpreadRule(NamedTuple):
    """No domain has more than `skew` of these pods above the one that has fewest."""

    pods: PodTerm
    skew: int
    least_domains: int
    honours_affinity: bool  # domains are those of nodes that the pod's node affinity lets it use,
    honours_taints: bool  # and whose taints it tolerates


class PodRules(NamedTuple):
    """All of them; most pods have none."""

    ports: tuple[HostPort, ...] = ()
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    claims: tuple[str, ...] = ()  # persistent volume claims, by name


NO_RULES: Final = PodRules()


def rules_of(about: Entry, spec: Entry) -> PodRules:
    """The rules of a pod."""
    namespace, labels = str(about["namespace"]), about.get("labels") or {}
    affinity = spec.get("affinity") or {}
    result = PodRules(
        tuple(_ports(spec)),
        tuple(_term(row, namespace) for row in (affinity.get("podAffinity") or {}).get(REQUIRED) or ()),
        tuple(_term(row, namespace) for row in (affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ()),
        tuple(
            _spread(row, namespace, labels)
            for row in spec.get("topologySpreadConstraints") or ()
            if row.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ),
        tuple(_claims(about, spec)),
    )
    return NO_RULES if result == NO_RULES else result


def unmodelled_in(spec: Entry) -> str:
    """A rule of the pod that nobody here checks; empty: there is none."""
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        for row in (affinity.get(name) or {}).get(REQUIRED) or ():
            if row.get("namespaceSelector"):
                return f"required {name} with a namespaceSelector"
    for volume in spec.get("volumes") or ():
        disk = next((name for name in EXCLUSIVE_DISKS if volume.get(name)), "")
        if disk:
            return f"a volume of kind {disk}"
    return "claims of resources (dynamic resource allocation)" if spec.get("resourceClaims") else ""


def _ports(spec: Entry) -> Iterator[HostPort]:
    """Of its containers; an init container that goes on beside them has ports too."""
    sidecars = [row for row in spec.get("initContainers") or () if row.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = str(port.get("hostIP") or ANY_ADDRESS)
                yield HostPort(address, str(port.get("protocol") or "TCP"), int(port["hostPort"]))


def _claims(about: Entry, spec: Entry) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield str(volume["persistentVolumeClaim"].get("claimName"))
        elif volume.get("ephemeral"):
            yield f"{about['name']}-{volume['name']}"


def _term(row: Entry, namespace: str) -> PodTerm:
    everywhere = row.get("namespaceSelector") == {}
    named = frozenset(row.get("namespaces") or ((namespace,) if row.get("namespaceSelector") is None else ()))
    return PodTerm(None if everywhere else named, selector_of(row.get("labelSelector")), str(row["topologyKey"]))


def _spread(row: Entry, namespace: str, labels: Mapping[str, str]) -> SpreadRule:
    selector = selector_of(row.get("labelSelector"))
    selector += tuple(
        LabelRule(name, True, (labels[name],)) for name in row.get("matchLabelKeys") or () if name in labels
    )
    return SpreadRule(
        PodTerm(frozenset((namespace,)), selector, str(row["topologyKey"])), int(row["maxSkew"]),
        int(row.get("minDomains") or 1), row.get("nodeAffinityPolicy", "Honor") == "Honor",
        row.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )  # fmt: skip


def selector_of(entry: Entry | None) -> tuple[LabelRule, ...]:
    """All of them must fit: an empty selector selects everything, and one that is not there nothing."""
    if entry is None:
        return NONE_MATCHES
    rules = [LabelRule(str(name), True, (str(value),)) for name, value in (entry.get("matchLabels") or {}).items()]
    for row in entry.get("matchExpressions") or ():
        operator, values = row.get("operator"), tuple(row.get("values") or ())
        on_values = operator in ("In", "NotIn")
        rules.append(LabelRule(str(row["key"]), operator in ("In", "Exists"), values if on_values else None))
    return tuple(rules)
