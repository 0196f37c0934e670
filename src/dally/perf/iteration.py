"""How long an iteration takes: compute, and the communication that does not hide under it."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network
from dally.model import Profile
from dally.perf.collectives import collective_cost
from dally.perf.costs import Cost
from dally.perf.gang import Gang, gang_on
from dally.pickles import picklable


class Staged:
    """The all-reduces of all buckets: their cost together, and lines from `(from_s, tail_s)`.

    Buckets are reduced while the backward pass goes on: each when it is ready and the one before it is done.
    The last is done at `max over k (ready_k + Σ_{j≥k} c_j)`: some bucket k starts when it is ready, and from then
    on there is no gap. If communication takes x times as long, so does each c_j: a maximum of straight lines
    over x, of which only those that are the highest anywhere are kept.
    """

    __slots__ = ("cost", "from_s", "tail_s")

    def __init__(self, cost: Cost) -> None:
        self.cost: Cost = cost
        self.from_s: list[float] = []  # of the backward pass, until which something has to be waited for,
        self.tail_s: list[float] = []  # and what is then still to be reduced, alone on the links

    def add(self, from_s: float, tail_s: float) -> None:
        """Add the line of an earlier moment and a longer tail; lines that others are always above go."""
        if self.tail_s and tail_s <= self.tail_s[-1]:
            return
        while len(self.from_s) > 1 and self._meet(from_s, tail_s) <= self._meet(self.from_s[-1], self.tail_s[-1]):
            self.from_s.pop()
            self.tail_s.pop()
        self.from_s.append(from_s)
        self.tail_s.append(tail_s)

    def _meet(self, from_s: float, tail_s: float) -> float:
        """By how much communication has to stretch for a line to reach the last but one."""
        return (self.from_s[-2] - from_s) / (tail_s - self.tail_s[-2])


def staged(network: Network, gang: Gang, profile: Profile, algorithm: str, chunks: i64) -> Staged:
    """What the profile's buckets ask for on that placement; those of one size are worked out once."""
    known: dict[float, Cost] = {}
    seconds_of: dict[int, float] = {}
    whole = Cost()
    whole_s = 0.0
    largest = 0.0
    each_s: list[float] = []
    for count, nbytes, _, _ in profile.stages:
        size = nbytes / count
        one = known.get(size)
        if one is None:
            one = collective_cost(network, gang, "all-reduce", size, algorithm, chunks)
            known[size] = one
        if size > largest:
            largest = size
            whole.algorithm = one.algorithm
        for place in range(len(one.links)):
            link = int(one.links[place])
            seconds_of[link] = seconds_of.get(link, 0.0) + count * one.seconds[place]
        whole.private_s += count * one.private_s
        each_s.append(one.alone_s())
        whole_s += count * one.alone_s()
    for link in sorted(seconds_of):
        whole.links = append(whole.links, link)
        whole.seconds = append(whole.seconds, seconds_of[link])
    whole.fixed_s = whole_s - whole.alone_s()  # latencies, and where another resource is the busiest
    result = Staged(whole)
    _draw(result, profile, each_s)
    return result


def _draw(result: Staged, profile: Profile, each_s: list[float]) -> None:
    """The lines, from the end of the backward pass to its beginning."""
    result.add(profile.backward_s, 0.0)
    after_s = 0.0
    place = len(each_s) - 1
    while place >= 0:
        count, _, first_s, last_s = profile.stages[place]
        result.add(last_s, after_s + each_s[place])
        after_s += count * each_s[place]
        result.add(first_s, after_s)
        place -= 1


def as_shares(tails_s: list[float], exchange_s: float, alone_s: float) -> vec[float]:
    """Each tail as a share of all communication, with what never hides in every one."""
    result: vec[float] = vec[float]()
    for tail_s in tails_s:
        result = append(result, (tail_s + exchange_s) / alone_s)
    return result


class Demand:
    """What one job asks of compute and network in each iteration, in seconds."""

    __slots__ = ("alone_s", "backward_s", "cost", "exposed_share", "forward_s", "from_s", "tails")

    def __init__(self, forward_s: float, backward_s: float, cost: Cost, exposed_share: float) -> None:
        self.forward_s: float = forward_s
        self.backward_s: float = backward_s
        self.cost: Cost = cost  # of all its communication together
        self.alone_s: float = cost.alone_s()  # that communication's time when nobody shares its links
        self.exposed_share: float = exposed_share  # of it, that cannot hide under the backward pass
        # Of buckets with a timeline (above) instead: moments of the backward pass, and shares of the
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

    def slowed(self, factor: float) -> Demand:
        """The same of a gang whose slowest member computes that many times as long."""
        result = Demand(self.forward_s * factor, self.backward_s * factor, self.cost, self.exposed_share)
        result.tails = self.tails
        for moment_s in self.from_s:
            result.from_s = append(result.from_s, moment_s * factor)
        return result

    def compute_s(self) -> float:
        """Seconds of compute in one iteration."""
        return self.forward_s + self.backward_s

    def duty(self, comm_s: float) -> float:
        """The share of its time that the job uses the network."""
        whole_s = self.iteration_s(comm_s)
        return comm_s / whole_s if whole_s > 0.0 else 0.0


picklable(Demand, 0.0, 0.0, Cost(), 0.0)


def stretched_by(demand: Demand, comm_s: float) -> list[tuple[int, float]]:
    """Each link, and by what share of a step that is longer if the link alone takes twice as long.

    `comm_s`: how long communication takes beside the others; they are as they were.
    """
    cost = demand.cost
    transfer_s = demand.alone_s - cost.fixed_s
    step_s = demand.iteration_s(comm_s)
    result: list[tuple[int, float]] = []
    for place in range(len(cost.links)):
        twice_s = 2.0 * cost.seconds[place]
        longer_s = comm_s
        if twice_s > transfer_s > 0.0:
            longer_s = cost.fixed_s + (comm_s - cost.fixed_s) * twice_s / transfer_s
        more = demand.iteration_s(longer_s) / step_s - 1.0 if step_s > 0.0 else 0.0
        result.append((int(cost.links[place]), more))
    return result


def demand_of(network: Network, gang: Gang, profile: Profile, algorithm: str = "auto", chunks: i64 = -1) -> Demand:
    """What a model asks for on that placement."""
    if profile.groups is not None:
        demand: Demand = profile.groups.demand(network, gang)
        return demand
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
