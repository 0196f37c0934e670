"""A gang's slices of a torus as the places to which ranks are assigned: no ring inside a slice uses a NIC."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from dally.cluster.links import Network
from dally.cluster.torus import Torus
from dally.perf.gang import Gang
from dally.perf.llm.rank_assignment import GangSite
from dally.perf.slices import TorusSlice, slices_of

CROSSED_ON_TORUS = (
    "",
    "machine",
)  # whose links a group crosses: none between a slice's machines, NICs between slices


def slice_site(network: Network, torus: Torus, gang: Gang) -> GangSite:
    """The site: machines, between which nothing limits, and slices. Each kind of group has one dimension.

    A slice's way out are all NICs of its machines. Those of its first machine stand for all in the loads of links.
    """
    machines = np.array(gang.domains[0], dtype=np.int64)
    gpus = np.array(gang.gpus[0], dtype=np.int64)
    slices = slices_of(network, torus, gang)
    own = np.array(slices.of_machine, dtype=np.int64)
    count = len(slices.all)
    rate = min(_along_one_side(piece, torus) for piece in slices.all)
    if len(machines) == 1:
        return GangSite(machines, gpus, (), (), (), inf, rate)
    apart = (np.arange(len(machines)), machines, np.full(len(machines), inf))
    if count == 1:
        return GangSite(machines, gpus, apart[:1], apart[1:2], apart[2:], inf, rate, (inf,), (None,), 1)
    firsts = np.array([int(np.argmax(own == place)) for place in range(count)])
    nics = np.array([network.rate[int(machine)] for machine in machines])
    out: NDArray[np.float64] = np.bincount(own, weights=nics, minlength=count).astype(np.float64)
    gpu_nic = min(network.gpu_nic_rate[int(machine)] for machine in machines)
    return GangSite(
        machines, gpus, (apart[0], own), (apart[1], machines[firsts]), (apart[2], out), inf, rate,
        (inf, gpu_nic), (None, None), 1,
    )  # fmt: skip


def _along_one_side(piece: TorusSlice, torus: Torus) -> float:
    """Bytes/s that a node sends along its longest dimension; infinite for a node by itself."""
    side = max(piece.shape)
    return piece.ways(side) * torus.rate / float(torus.unit) if side > 1 else inf
