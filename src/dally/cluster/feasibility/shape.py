"""The shape of a gang: in which pieces its GPUs come, and how many one machine gives."""

from __future__ import annotations

from typing import NamedTuple


class GangShape(NamedTuple):
    """GPUs come in groups that share a machine; `cap`: one machine gives no more than that, 0: any number."""

    group: int
    cap: int = 0


def shape_of(
    gpus: int, group: int, per_node: int, nodes_min: int, nodes_max: int, largest: int
) -> GangShape | None:
    """The shape of such a gang on machines of up to `largest` GPUs; None: there is none.

    Between numbers of machines it is split evenly, over as few of them as can be.
    """
    if per_node > 0:
        nodes = gpus // per_node
        fits = gpus % per_node == 0 and per_node % group == 0
        fits = fits and nodes >= nodes_min and (nodes_max == 0 or nodes <= nodes_max)
        return GangShape(per_node, per_node) if fits else None
    if nodes_min <= 1:
        return _at_most(gpus, group, nodes_max)
    for nodes in range(nodes_min, (nodes_max or gpus) + 1):
        share = gpus // nodes
        if gpus % nodes == 0 and share % group == 0 and share <= largest:
            return GangShape(share, share)
    return None


def is_in_shape(gpus: int, group: int, cap: int, nodes_min: int, nodes_max: int) -> bool:
    """Whether another number of GPUs comes in the same groups, on as many machines as stated."""
    if gpus % group:
        return False
    groups = gpus // group
    return (nodes_max == 0 or groups <= nodes_max) and (nodes_min <= 1 or (cap > 0 and groups >= nodes_min))


def _at_most(gpus: int, group: int, nodes_max: int) -> GangShape | None:
    """On no more machines than that: groups so large that no more can be used."""
    if nodes_max == 0 or -(-gpus // group) <= nodes_max:
        return GangShape(group)
    for nodes in range(nodes_max, 0, -1):
        if gpus % nodes == 0 and gpus // nodes % group == 0:
            return GangShape(gpus // nodes)
    return None
