"""The ways in which jobs share links, by name."""

from __future__ import annotations

from dally.cluster.links import FAIR, LINK_SHARINGS, Network
from dally.errors import unknown
from dally.perf.adadual import AdaDualContention
from dally.perf.cassini import CASSINI, CassiniContention
from dally.perf.contention import Contention
from dally.perf.crux import CRUX, CruxContention
from dally.perf.no_contention import NO_CONTENTION, NoContention


def contention_of(sharing: str, network: Network) -> Contention:
    """The model of the network's links shared in the way of that name; fair sharing is as the network says."""
    kappa = 1.0 + network.sharing_penalty
    name = network.sharing if sharing == FAIR else sharing
    if name == FAIR:
        return Contention(network.link_count(), kappa)
    if name == "adadual":
        return AdaDualContention(network.link_count(), kappa)
    if name == CASSINI:
        return CassiniContention(network.link_count(), kappa)
    if name == CRUX:
        return CruxContention(network.link_count(), kappa)
    if name == NO_CONTENTION:
        return NoContention(network.link_count(), kappa)
    raise unknown("way of sharing links", sharing, (*LINK_SHARINGS, NO_CONTENTION))
