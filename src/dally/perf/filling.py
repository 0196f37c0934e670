"""Filling one link: what its gangs ask of it when they are there, and the level up to which they get it."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.pickles import picklable


class Shares:
    """The shares of a link that its members ask for, smallest first, and how often; sums of them so far.

    `taken[k]` is what the k smallest take on average, `heads[k]` how many of the others are there; the same
    for the variances: of shares, and of heads.
    """

    __slots__ = (
        "all", "busy", "head_variance", "heads", "meets", "places", "share_variance", "shares", "taken", "variance",
    )  # fmt: skip

    def __init__(self, requested: vec[float], busy: vec[float]) -> None:
        self.places: vec[i64] = vec[i64]([0] * len(requested))  # of each member among the sorted
        self.shares: vec[float] = vec[float]()
        self.busy: vec[float] = vec[float]()
        self.all: float = 0.0  # if all were there at once
        self.meets: float = 0.0  # what `share_with` found
        self.variance: float = 0.0
        order: vec[i64] = vec[i64]()
        for at in range(len(requested)):
            order = append(order, at)
            place: i64 = at
            while place > 0 and requested[order[place - 1]] > requested[at]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = at
        for place in range(len(order)):
            self.places[order[place]] = place
            self.shares = append(self.shares, requested[order[place]])
            self.busy = append(self.busy, busy[order[place]])
            self.all += requested[order[place]]
        self.taken: vec[float] = vec[float]([0.0])
        self.share_variance: vec[float] = vec[float]([0.0])
        self.heads: vec[float] = vec[float]([0.0] * (len(requested) + 1))
        self.head_variance: vec[float] = vec[float]([0.0] * (len(requested) + 1))
        self._sum()

    def _sum(self) -> None:
        last: i64 = len(self.shares) - 1
        for place in range(len(self.shares)):
            share = self.shares[place]
            there = self.busy[place]
            spread = there * (1.0 - there)
            self.taken = append(self.taken, self.taken[place] + there * share)
            self.share_variance = append(self.share_variance, self.share_variance[place] + share * share * spread)
        for back in range(len(self.shares)):
            there = self.busy[last - back]
            self.heads[last - back] = self.heads[last - back + 1] + there
            self.head_variance[last - back] = self.head_variance[last - back + 1] + there * (1.0 - there)

    def share_with(self, own: i64) -> None:
        """Work out how many others the member in that place meets while it asks for all it can get: `meets`

        and its `variance`. Who asks for less than the level gets it and counts as that share of a head; the
        rest share what is left. The level rises as more of them turn out to ask for less.
        """
        share = self.shares[own]
        there = self.busy[own]
        less: i64 = 0
        while True:
            if own < less:
                level = (1.0 - self.taken[less] + there * share) / (1.0 + self.heads[less])
            else:
                level = (1.0 - self.taken[less]) / (1.0 + self.heads[less] - there)
            if less == len(self.shares) or self.shares[less] > level:
                break
            less += 1
        small = self.share_variance[less]
        large = self.head_variance[less]
        spread = there * (1.0 - there)
        if own < less:
            small -= share * share * spread
        else:
            large -= spread
        variance = small / (level * level) + large
        self.meets = 1.0 / level - 1.0
        self.variance = variance if variance > 0.0 else 0.0


picklable(Shares, vec[float](), vec[float]())
