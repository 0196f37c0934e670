"""Random draws that are the same on every machine and under every Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class Stream:
    """Draws for one purpose; they depend on the key alone, not on what else is drawn.

    Only `Random.random` is used: of its methods it alone promises never to change.
    """

    def __init__(self, *key: object) -> None:
        self.point = Random("/".join(map(str, key))).random  # a number from [0, 1)

    def below(self, most: int) -> int:
        """A whole number from 0 to most - 1."""
        return int(self.point() * most)

    def pick(self, totals: Sequence[float]) -> int:
        """Which of the weights whose running totals these are."""
        return min(bisect_right(totals, self.point() * totals[-1]), len(totals) - 1)

    def shuffle(self, items: list[Item]) -> None:
        """Put a list into random order."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


def near_shares(total: int, weights: Sequence[float], offset: float) -> list[int]:
    """Whole numbers that add up to the total, each within 1 of its share.

    Where the next one is rounded up depends on the offset, from [0, 1): on average over offsets none gains.
    """
    scale = total / sum(weights)
    cuts = [int(running * scale + offset) for running in accumulate(weights)]
    cuts[-1] = total
    return [here - before for before, here in zip([0, *cuts], cuts, strict=False)]


def nearest_shares(total: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers that add up to the total, those with the largest remainders rounded up."""
    scale = total / sum(weights)
    exact = [weight * scale for weight in weights]
    counts = [int(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda place: (counts[place] - exact[place], place))
    for place in by_remainder[: total - sum(counts)]:
        counts[place] += 1
    return counts
