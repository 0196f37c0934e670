"""What pods take of their nodes, and what nodes have: all that kube-scheduler counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dally.cluster.formats.kubernetes import GPU_RESOURCES
from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.quantity import quantity

MOST_GPUS: Final = 10**6  # of a pod; no machine has as many, and whoever asks for more asks in vain too
PODS: Final = "pods"
IN_BYTES: Final = ("ephemeral-storage", "hugepages-")  # counted in MB below, as memory is
MB: Final = 2.0**20
UNLIMITED: Final = 1e18  # of what a node does not state
UNLIMITED_PODS: Final = 1e6

Amounts = dict[str, float]


class Needs(NamedTuple):
    """Amounts; `others` by name: pods, storage in MB, extended resources."""

    gpus: int = 0
    cpus: float = 0.0
    memory: float = 0.0  # bytes
    others: tuple[tuple[str, float], ...] = ()
    kind: str = ""  # of its GPUs, if not the first of GPU_RESOURCES


def needs_of(spec: Entry) -> Needs:
    """As kube-scheduler counts: containers and sidecars together, or an init container with the sidecars before it.

    The overhead of its runtime class comes on top.
    """
    running = _sum(_request(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        together = _sum((sidecars, _request(container)))
        if container.get("restartPolicy") == "Always":
            sidecars = together
        peak = {name: max(peak.get(name, 0.0), together.get(name, 0.0)) for name in {**peak, **together}}
    running = _sum((running, sidecars))
    total = {name: max(running.get(name, 0.0), peak.get(name, 0.0)) for name in {**running, **peak}}
    return _needs(_sum((total, _amounts(spec.get("overhead") or {}), {PODS: 1.0})))


def room_of(status: Entry) -> Needs:
    """What pods may take of a node."""
    stated = {**(status.get("capacity") or {}), **(status.get("allocatable") or {})}
    unstated = {"cpu": UNLIMITED, "memory": UNLIMITED, PODS: UNLIMITED_PODS}
    return _needs({**unstated, **_amounts(stated)})


def total_needs(needs: Iterable[Needs]) -> Needs:
    """The sum."""
    gpus, cpus, memory = 0, 0.0, 0.0
    others: Amounts = {}
    for one in needs:
        gpus, cpus, memory = gpus + one.gpus, cpus + one.cpus, memory + one.memory
        for name, amount in one.others:
            others[name] = others.get(name, 0.0) + amount
    return Needs(gpus, cpus, memory, tuple(sorted(others.items())))


def _request(container: Entry) -> Amounts:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(stated: Mapping[str, object]) -> Amounts:
    return {name: quantity(value) for name, value in stated.items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    result: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = result.get(name, 0.0) + amount
    return result


def _needs(amounts: Amounts) -> Needs:
    gpus = sum(amounts.get(name, 0.0) for name in GPU_RESOURCES)
    known = {"cpu", "memory", *GPU_RESOURCES}
    others = {name: amount for name, amount in amounts.items() if name not in known and amount > 0.0}
    kind = "+".join(name for name in GPU_RESOURCES if amounts.get(name, 0.0) > 0.0)
    in_mb = {name: amount / MB if name.startswith(IN_BYTES) else amount for name, amount in others.items()}
    return Needs(
        int(min(gpus, MOST_GPUS)),
        amounts.get("cpu", 0.0),
        amounts.get("memory", 0.0),
        tuple(sorted(in_mb.items())),
        "" if kind == GPU_RESOURCES[0] else kind,
    )
