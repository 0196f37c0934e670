"""Asking the model directly: the stable Python interface to collectives and iteration times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.cluster.links import Network
from dally.errors import InputError
from dally.model import Profile
from dally.perf.collectives import ALGORITHMS, COLLECTIVES, collective_cost
from dally.perf.contention import Contention
from dally.perf.gang import Gang, gang_on
from dally.perf.iteration import demand_of


def collective_time(
    cluster: Cluster,
    collective: str,
    nbytes: float,
    placement: Mapping[int, int],
    algorithm: str = "auto",
    chunks: int | None = None,
) -> float:
    """Seconds the collective takes alone on `{machine: GPUs}`, with the named algorithm or the fastest.

    `chunks`: 1 = the tiers' phases one after the other (the default of ideal links), k = pipelined in k
    pieces, 0 = pipelined without end (the default otherwise).
    """
    check_collective(collective, algorithm)
    if not 0.0 <= nbytes < float("inf"):
        raise InputError(f"nbytes: {nbytes!r}: must be a number of bytes, not negative")
    if chunks is not None and chunks < 0:
        raise InputError(f"chunks: {chunks!r}: must be a whole number, not negative")
    network = network_of(cluster)
    gang = placed(network, placement)
    return collective_cost(
        network, gang, collective, float(nbytes), algorithm, -1 if chunks is None else chunks
    ).alone_s()


def iteration_times(
    cluster: Cluster, jobs: Sequence[tuple[Profile, Mapping[int, int]]], algorithm: str = "auto"
) -> list[float]:
    """Seconds per iteration of each job when all run together."""
    check_collective("all-reduce", algorithm)
    network = network_of(cluster)
    taken: dict[int, int] = {}
    contention = Contention(network.link_count(), 1.0 + network.sharing_penalty, 1e-9)
    for number, (profile, placement) in enumerate(jobs):
        gang = placed(network, placement)
        for machine, gpus in placement.items():
            taken[machine] = taken.get(machine, 0) + gpus
            if taken[machine] > network.topology.gpus[0][machine]:
                raise InputError(
                    f"placement: machine {machine}: the jobs take {taken[machine]} GPUs, "
                    f"it has {int(network.topology.gpus[0][machine])}"
                )
        contention.add(number, demand_of(network, gang, profile, algorithm))
    return [contention.iteration_s(number) for number in range(len(jobs))]


def network_of(cluster: Cluster) -> Network:
    """The cluster's network, or an InputError when nothing is known of its links."""
    if cluster.network is None:
        raise InputError("cluster: has no links; give bandwidths, links in its file, or a network preset")
    return cluster.network


def placed(network: Network, placement: Mapping[int, int]) -> Gang:
    """The gang on `{machine: GPUs}`, or an InputError that names the machine."""
    machines: vec[i64] = vec[i64]()
    gpus: vec[i64] = vec[i64]()
    count = network.topology.machine_count()
    if not placement:
        raise InputError("placement: names no machine")
    for machine in sorted(placement):
        if not 0 <= machine < count:
            raise InputError(f"placement: machine {machine}: must be from 0 to {count - 1}")
        most = int(network.topology.gpus[0][machine])
        if not 1 <= placement[machine] <= most:
            raise InputError(f"placement: machine {machine}: {placement[machine]} GPUs: must be from 1 to {most}")
        machines = append(machines, machine)
        gpus = append(gpus, placement[machine])
    return gang_on(network, machines, gpus)


def check_collective(collective: str, algorithm: str) -> None:
    """Raise an InputError unless both names are known."""
    if collective not in COLLECTIVES:
        raise InputError(f"collective: {collective!r}: must be one of {', '.join(COLLECTIVES)}")
    if algorithm not in ALGORITHMS:
        raise InputError(f"algorithm: {algorithm!r}: must be one of {', '.join(ALGORITHMS)}")
