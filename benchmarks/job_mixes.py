"""Random mixes of jobs that share the links of a small cluster."""

from __future__ import annotations

import random

from dally import Cluster, Profile
from dally.cluster.links import Network
from dally.perf.iteration import Demand, demand_of
from dally.perf.queries import placed

MOST_JOBS = 8


def random_mix(rng: random.Random) -> tuple[Network, list[Demand]]:
    """A network, and two to eight jobs scattered over its machines."""
    while True:
        racks, machines = rng.choice((2, 3)), rng.choice((2, 4))
        nic_gbps = rng.choice((12.5, 25.0, 50.0))
        cluster = Cluster.grid(
            racks=racks,
            machines=machines,
            gpus=8,
            intra_gbps=300,
            nic_gbps=nic_gbps,
            uplink_gbps=nic_gbps * machines / rng.choice((1, 2, 4)),
            ideal=True,
        )
        network = cluster.network
        assert network is not None
        free = dict.fromkeys(range(racks * machines), 8)
        demands = []
        for _ in range(rng.randint(2, MOST_JOBS)):
            placement = _scatter(rng, free, rng.choice((2, 4, 8, 8, 16)))
            if len(placement) > 1:
                demands.append(_demand(rng, network, placement))
        if len(demands) > 1:
            return network, demands


def _scatter(rng: random.Random, free: dict[int, int], gpus: int) -> dict[int, int]:
    placement: dict[int, int] = {}
    while gpus and any(free.values()):
        machine = rng.choice([machine for machine in sorted(free) if free[machine]])
        part = min(gpus, free[machine], rng.choice((1, 2, 4, 8)))
        placement[machine] = placement.get(machine, 0) + part
        free[machine] -= part
        gpus -= part
    return placement


def _demand(rng: random.Random, network: Network, placement: dict[int, int]) -> Demand:
    """Communication alone takes from an eighth to four times as long as compute, hidden, half hidden or not."""
    gang = placed(network, placement)
    nbytes = rng.choice((25e6, 100e6, 250e6, 500e6, 1.3e9))
    alone_s = demand_of(network, gang, Profile(nbytes=nbytes)).alone_s
    compute_s = alone_s / 2 ** rng.uniform(-3, 2)
    return demand_of(network, gang, Profile(compute_s, nbytes, rng.choice((0.0, 0.5, 1.0))))
