"""Gradients that are all-reduced in buckets while the backward pass goes on: each when it is ready and the one
before it is done.

The last bucket is done at `max over k (ready_k + Σ_{j≥k} c_j)`: some bucket k starts when it is ready, and from
then on there is no gap. If communication takes x times as long, so does each c_j: that is a maximum of straight
lines over x, of which only those that are the highest anywhere are kept.
"""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network
from dally.model import Profile
from dally.perf.collectives import Cost, collective_cost
from dally.perf.gang import Gang


class Staged:
    """The all-reduces of all buckets: their cost together, and lines from `(from_s, tail_s)`."""

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
