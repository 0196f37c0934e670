"""Which pod of a gang goes to which machine, in the order of the fabric, and the hostfile that says so."""

from __future__ import annotations

from collections.abc import Sequence

from dally.live.backends.base import BackendError, Placement
from dally.live.backends.kubernetes.pod_record import PodRecord


def seats(pods: Sequence[PodRecord], placement: Placement) -> list[str]:
    """A node for each pod: machine by machine in the order given, ranks one after another.

    Where pods differ in size and that leaves gaps, the largest are seated first.
    """
    result = _in_order(pods, placement, range(len(pods)))
    if result is None:
        largest_first = sorted(range(len(pods)), key=lambda place: (-pods[place].needs.gpus, place))
        result = _first_fit(pods, placement, largest_first)
    if result is None:
        sizes = ", ".join(sorted({str(pod.needs.gpus) for pod in pods}))
        raise BackendError(f"its pods of {sizes} GPUs do not fit into {placement}")
    return result


def _in_order(pods: Sequence[PodRecord], placement: Placement, order: Sequence[int]) -> list[str] | None:
    nodes = list(placement)
    result, at, left = [""] * len(pods), 0, dict(placement)
    for place in order:
        while at < len(nodes) and left[nodes[at]] == 0:
            at += 1
        if at == len(nodes) or left[nodes[at]] < pods[place].needs.gpus:
            return None
        left[nodes[at]] -= pods[place].needs.gpus
        result[place] = nodes[at]
    return result


def _first_fit(pods: Sequence[PodRecord], placement: Placement, order: Sequence[int]) -> list[str] | None:
    result, left = [""] * len(pods), dict(placement)
    for place in order:
        node = next((name for name, gpus in left.items() if gpus >= pods[place].needs.gpus), None)
        if node is None:
            return None
        left[node] -= pods[place].needs.gpus
        result[place] = node
    return result


def hostfile(pods: Sequence[PodRecord], nodes: Sequence[str]) -> str:
    """A line per rank: the pod, its GPUs as slots, and the machine it runs on."""
    lines = [f"{pod.name} slots={pod.needs.gpus} # {node}" for pod, node in zip(pods, nodes, strict=True)]
    return "\n".join([*lines, ""])
