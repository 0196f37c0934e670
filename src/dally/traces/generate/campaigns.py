"""Who runs the same thing again: work cut into campaigns, and campaigns into bursts.

A campaign is one job that its user runs again and again: same name, same size, similar durations. A burst is a
part of it that is submitted in one go, as with a sweep of parameters.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from dally.traces.generate.recipe import Recipe
from dally.traces.generate.stream import Stream

MOST_IN_BURST = 300


class Burst(NamedTuple):
    """Jobs that one user submits in one go."""

    campaign: int
    user: str
    name: str
    gpus: int
    durations_s: list[int]


def draw_bursts(recipe: Recipe, work: dict[int, list[int]], seed: int) -> list[Burst]:
    """All of the work, in bursts. Neighbours in duration share a campaign, so it costs nothing of the curve."""
    stream = Stream(seed, recipe.name, "campaigns")
    totals = list(accumulate((rank + 1) ** -recipe.user_skew for rank in range(recipe.users)))
    jobs = sum(map(len, work.values()))
    lengths = burst_totals(recipe.burst, min(MOST_IN_BURST, max(1, jobs // 20)))
    again = 1.0 - (1.0 - recipe.recurring) / (1.0 - recipe.burst) if recipe.recurring > recipe.burst else 0.0
    result: list[Burst] = []
    campaigns = 0
    for gpus, durations_s in work.items():
        begin = 0
        while begin < len(durations_s):
            counts = [stream.pick(lengths) + 1]
            while stream.point() < again:
                counts.append(stream.pick(lengths) + 1)
            own_s = durations_s[begin : begin + sum(counts)]
            begin += len(own_s)
            stream.shuffle(own_s)
            user = f"u{stream.pick(totals)}"
            for count in counts:
                part_s, own_s = own_s[:count], own_s[count:]
                if part_s:
                    result.append(Burst(campaigns, user, f"{user}-{campaigns}", gpus, part_s))
            campaigns += 1
    return result


def burst_totals(share: float, most: int) -> list[float]:
    """Running totals of how often a burst has 1, 2, … `most` jobs.

    A burst is at least k long with a chance of k to the minus a: most have one job and a few have hundreds. The
    power a is such that the given share of jobs follows another in its burst.
    """
    if share <= 0.0 or most < 2:
        return [1.0]
    low, high = 0.0, 64.0
    for _ in range(60):
        power = (low + high) / 2
        mean = sum(k**-power for k in range(1, most + 1))
        low, high = (power, high) if mean * (1.0 - share) > 1.0 else (low, power)
    return [1.0 - (k + 1) ** -low for k in range(1, most)] + [1.0]
