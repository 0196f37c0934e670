"""Flows hashed over parallel cables: some cables get several, and a collective waits for the slowest."""

from __future__ import annotations

from math import log, sqrt
from typing import Final

from mypy_extensions import i64

MOST_COUNTED: Final = 128  # flows; beyond, the mean and its spread say it within 3 %
_KNOWN: Final[dict[tuple[int, int], float]] = {}

WORST_HASH: Final = 2


def busiest(flows: i64, cables: i64, mode: i64) -> float:
    """Flows on the cable that has most: expected when each picks one at random, all of them at worst."""
    if flows <= 1 or cables <= 1 or mode == WORST_HASH:
        return float(flows)
    key = (int(flows), int(cables))
    result = _KNOWN.get(key)
    if result is None:
        result = _expected(key[0], key[1])
        _KNOWN[key] = result
    return result


def attained(flows: i64, cables: i64, mode: i64) -> float:
    """Share of all cables' rate that equal flows get until the last one is done."""
    return float(flows) / (float(cables) * busiest(flows, cables, mode)) if flows > 0 else 1.0


def _expected(flows: int, cables: int) -> float:
    if flows > MOST_COUNTED:
        mean = flows / cables
        return min(float(flows), mean + sqrt(2.0 * mean * log(cables)))
    result = 0.0
    for most in range(flows):  # the mean is the sum of the chances that some cable has more than so many
        result += 1.0 - _chance(flows, cables, most)
    return result


def _chance(flows: int, cables: int, most: int) -> float:
    """That no cable has more than `most` of the flows: cable by cable, how many flows are placed so far."""
    if most * cables < flows:
        return 0.0
    placed = [0.0] * (flows + 1)
    placed[0] = 1.0
    for cable in range(cables):
        share = 1.0 / (cables - cable)  # of those left, what goes to this one of those left
        following = [0.0] * (flows + 1)
        for before in range(flows + 1):
            if placed[before] == 0.0:
                continue
            left = flows - before
            chance = (1.0 - share) ** left if share < 1.0 else (1.0 if left == 0 else 0.0)
            for count in range(min(most, left) + 1):
                if share < 1.0:
                    following[before + count] += placed[before] * chance
                    chance *= (left - count) / (count + 1) * share / (1.0 - share)
                elif count == left:
                    following[before + count] += placed[before]
        placed = following
    return placed[flows]
