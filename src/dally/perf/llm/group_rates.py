"""How fast the groups of a layout communicate, by the fabric that each of them crosses."""

from __future__ import annotations

from typing import NamedTuple

from dally.perf.llm.layout import Layout

GIGA = 1e9


class GroupRates(NamedTuple):
    """Bytes/s at which one GPU takes part in each group's rings; `expert_*` of the exchange between experts."""

    tensor: float
    context: float
    data: float
    pipeline: float
    expert_data: float  # between the replicas of experts
    expert_fabric: float
    expert_nic: float
    expert_domains: float  # that a group of experts spans


class Fabric(NamedTuple):
    """Domains that a fast fabric joins, and NICs between them, in bytes/s of one GPU as collectives attain them."""

    domain: int
    fabric: float
    nic: float

    def ring(self, stride: int, size: int) -> float:
        """Of a group whose ranks are `stride` apart. Members inside a domain add up their NICs."""
        if stride * size <= self.domain:
            return self.fabric
        return min(self.fabric, max(1, self.domain // stride) * self.nic)


def in_order(layout: Layout, fabric: Fabric, single_ring: float) -> GroupRates:
    """Of ranks laid over domains in their order: tensor, context, data and pipeline, as frameworks do."""
    ranks = layout.dp * layout.cp
    data = fabric.ring(layout.tp, ranks)
    if layout.single_ring and ranks > fabric.domain:
        data = single_ring
    stage = layout.gpus // layout.pp
    return GroupRates(
        tensor=fabric.ring(1, layout.tp),
        context=fabric.ring(layout.tp, layout.cp),
        data=data,
        pipeline=fabric.ring(stage, layout.pp),
        expert_data=fabric.ring(layout.ep, max(1, stage // layout.ep)),
        expert_fabric=fabric.fabric,
        expert_nic=fabric.nic,
        expert_domains=max(1.0, layout.ep / fabric.domain),
    )
