"""How long an iteration takes: compute, and the communication that does not hide under it."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network
from dally.model import Profile
from dally.perf.collectives import Cost, collective_cost
from dally.perf.gang import Gang, gang_on
from dally.perf.timeline import as_shares, staged
from dally.pickles import picklable


class Demand:
    """What one job asks of compute and network in each iteration, in seconds."""

    __slots__ = ("alone_s", "backward_s", "cost", "exposed_share", "forward_s", "from_s", "tails")

    def __init__(self, forward_s: float, backward_s: float, cost: Cost, exposed_share: float) -> None:
        self.forward_s: float = forward_s
        self.backward_s: float = backward_s
        self.cost: Cost = cost  # of all its communication together
        self.alone_s: float = cost.alone_s()  # that communication's time when nobody shares its links
        self.exposed_share: float = exposed_share  # of it, that cannot hide under the backward pass
        # Of buckets with a timeline (perf/timeline.py) instead: moments of the backward pass, and shares of the
        # communication that follow each. None: no timeline.
        self.from_s: vec[float] = vec[float]()
        self.tails: vec[float] = vec[float]()

    def iteration_s(self, comm_s: float) -> float:
        """T_fwd + max(T_bwd, T_comm - T_last) + T_last, in seconds, when communication takes `comm_s`.

        With a timeline: T_fwd + max over k (ready_k + what is reduced from bucket k on).
        """
        if len(self.from_s) > 0:
            return self.forward_s + self._reduced_s(comm_s)
        last_s = comm_s * self.exposed_share
        hidden_s = comm_s - last_s
        return self.forward_s + (hidden_s if hidden_s > self.backward_s else self.backward_s) + last_s

    def _reduced_s(self, comm_s: float) -> float:
        """Seconds from the start of the backward pass until all buckets are reduced."""
        latest = 0.0
        for place in range(len(self.from_s)):
            done_s = self.from_s[place] + comm_s * self.tails[place]
            if done_s > latest:
                latest = done_s
        return latest

    def compute_s(self) -> float:
        """Seconds of compute in one iteration."""
        return self.forward_s + self.backward_s

    def duty(self, comm_s: float) -> float:
        """The share of its time that the job uses the network."""
        whole_s = self.iteration_s(comm_s)
        return comm_s / whole_s if whole_s > 0.0 else 0.0


picklable(Demand, 0.0, 0.0, Cost(), 0.0)


def demand_of(network: Network, gang: Gang, profile: Profile, algorithm: str = "auto", chunks: i64 = -1) -> Demand:
    """What a model asks for on that placement."""
    if len(profile.stages) > 0:
        return _demand_in_buckets(network, gang, profile, algorithm, chunks)
    cost = collective_cost(network, gang, "all-reduce", profile.nbytes, algorithm, chunks)
    reduce_s = cost.alone_s()
    last_s = (1.0 - profile.overlap) * reduce_s
    if profile.last_bucket_bytes > 0.0:
        nbytes = profile.last_bucket_bytes if profile.last_bucket_bytes < profile.nbytes else profile.nbytes
        bucket_s = collective_cost(network, gang, "all-reduce", nbytes, algorithm, chunks).alone_s()
        if bucket_s > last_s:
            last_s = bucket_s if bucket_s < reduce_s else reduce_s
    if profile.all_to_all_bytes > 0.0:
        group = exchange_group(network, gang, profile.all_to_all_gpus)
        exchange = collective_cost(network, group, "all-to-all", profile.all_to_all_bytes, "auto", chunks)
        last_s += exchange.alone_s()
        cost = in_order(cost, exchange)
    alone_s = cost.alone_s()
    share = last_s / alone_s if alone_s > 0.0 else 0.0
    return Demand(profile.forward_s, profile.backward_s, cost, share)


def _demand_in_buckets(network: Network, gang: Gang, profile: Profile, algorithm: str, chunks: i64) -> Demand:
    reduced = staged(network, gang, profile, algorithm, chunks)
    cost = reduced.cost
    exchange_s = 0.0
    if profile.all_to_all_bytes > 0.0:
        group = exchange_group(network, gang, profile.all_to_all_gpus)
        exchange = collective_cost(network, group, "all-to-all", profile.all_to_all_bytes, "auto", chunks)
        exchange_s = exchange.alone_s()
        cost = in_order(cost, exchange)
    demand = Demand(profile.forward_s, profile.backward_s, cost, 0.0)
    if demand.alone_s > 0.0:
        demand.from_s = vec[float](reduced.from_s)
        demand.tails = as_shares(reduced.tail_s, exchange_s, demand.alone_s)
    return demand


def exchange_group(network: Network, gang: Gang, gpus: i64) -> Gang:
    """The first of the groups that exchange with each other, cut off machine by machine; 0: the whole gang."""
    if gpus == 0 or gpus >= gang.size:
        return gang
    machines: vec[i64] = vec[i64]()
    counts: vec[i64] = vec[i64]()
    left = gpus
    for place in range(len(gang.domains[0])):
        part = gang.gpus[0][place] if gang.gpus[0][place] < left else left
        if part > 0:
            machines = append(machines, gang.domains[0][place])
            counts = append(counts, part)
            left -= part
    return gang_on(network, machines, counts)


def in_order(one: Cost, other: Cost) -> Cost:
    """The cost of one collective after the other."""
    both = Cost()
    both.algorithm = one.algorithm
    both.private_s = one.private_s + other.private_s
    seconds_of: dict[int, float] = {}
    for cost in (one, other):
        for place in range(len(cost.links)):
            link = int(cost.links[place])
            seconds_of[link] = seconds_of.get(link, 0.0) + cost.seconds[place]
    for link in sorted(seconds_of):
        both.links = append(both.links, link)
        both.seconds = append(both.seconds, seconds_of[link])
    # Their busiest resources may differ: what the sum then misses is time that passes all the same.
    both.fixed_s = one.alone_s() + other.alone_s() - both.alone_s()
    return both
