"""What limits a gang that is alone on an uplink above machines: its rails, and the cables of its flows."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.hashed_paths import busiest
from dally.cluster.links import GIGA, Network
from dally.perf.gang import Gang


def own_uplink_s(network: Network, gang: Gang, narrow: bool, tier: i64, place: i64, load: float) -> float:
    """Seconds that the gang's own flows need through an uplink above machines that nobody else uses.

    Rails that its GPUs are not on are idle, and flows that are hashed onto one cable share it.
    """
    link = network.first_link[tier] + gang.domains[tier][place]
    if network.gpu_rate[link] == 0.0 and network.paths[link] == 0:
        return 0.0
    senders = gang.gpus[tier][place]
    if narrow and network.joined[gang.domains[0][0]] == 0:
        most: i64 = 0
        for count in gang.gpus[0]:
            if count > most:
                most = count
        if most < senders:
            senders = most
    seconds = 0.0
    if network.gpu_rate[link] > 0.0:
        seconds = load / (network.gpu_rate[link] * float(senders))
    if network.paths[link] > 0:
        # `rate` has what hashing loses when all GPUs below send; one cable is a share of the rest.
        whole = network.capacity_gbps[link] * GIGA * (1.0 - network.background[link])
        cable = whole / float(network.paths[link])
        on_one = busiest(senders, network.paths[link], network.hashing[link])
        hashed_s = load / float(senders) * on_one / cable
        if hashed_s > seconds:
            seconds = hashed_s
    return seconds


def in_one_fabric(network: Network, gang: Gang) -> bool:
    """Whether nothing leaves the fabric: one machine, or machines of a domain that a fabric joins."""
    return gang.top == 0 or (gang.top == 1 and network.joined[gang.domains[0][0]] == 1)
