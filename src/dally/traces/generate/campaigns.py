"""Who runs the same thing again: work cut into campaigns, campaigns into bursts, and whose they are.

A campaign is one job that its user runs again and again: same name, same size, similar durations. A burst is a
part of it that is submitted in one go, as with a sweep of parameters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

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


PERCENT: Final = (1, 2, 5, 10, 20, 30, 50, 100)  # of users or teams, the busiest
USERS: Final = (20.5, 29.1, 46.2, 61.9, 82.5, 91.9, 98.4, 100.0)  # percent of GPU-hours that they hold
TEAMS: Final = (6.4, 12.8, 32.0, 52.7, 73.1, 82.8, 96.2, 100.0)


class Owned(NamedTuple):
    """Bursts with their users, and the team of each: empty where none is asked for."""

    bursts: list[Burst]
    teams: list[str]


def shared_out(bursts: list[Burst], users: int, teams: int, seed: int, recipe: str) -> Owned:
    """The same bursts as those of so many users and teams that share a cluster as unevenly as measured.

    Figures of users are of Helios Venus (95 users of 20 days), of teams of Philly (15 virtual clusters), as
    `python -m benchmarks.user_load` measures them in the public traces.
    """
    stream = Stream(seed, recipe, "people")
    loads: dict[int, float] = {}  # GPU-seconds by campaign
    for burst in bursts:
        loads[burst.campaign] = loads.get(burst.campaign, 0.0) + burst.gpus * sum(burst.durations_s)
    user_of = dict(zip(loads, owners(list(loads.values()), quotas(users, USERS), stream), strict=True))
    used = [0.0] * users
    for campaign, load in loads.items():
        used[user_of[campaign]] += load
    team_of = [f"team{team}" for team in owners(used, quotas(teams, TEAMS), stream)] if teams else [""] * users
    named: list[Burst] = []
    for burst in bursts:
        user = f"u{user_of[burst.campaign]}"
        named.append(burst._replace(user=user, name=f"{user}-{burst.campaign}"))
    return Owned(named, [team_of[user_of[burst.campaign]] for burst in bursts])


def quotas(count: int, held: Sequence[float]) -> list[float]:
    """What share each of so many holds, the busiest first; between the measured points it runs straight."""
    points, totals = (0.0, *PERCENT), (0.0, *held)

    def together(percent: float) -> float:
        right = min(bisect_left(points, percent), len(points) - 1) or 1
        along = (percent - points[right - 1]) / (points[right] - points[right - 1])
        return totals[right - 1] + along * (totals[right] - totals[right - 1])

    running = [together(100.0 * place / count) / 100.0 for place in range(count + 1)]
    return [here - before for before, here in pairwise(running)]


def owners(loads: Sequence[float], shares: Sequence[float], stream: Stream) -> list[int]:
    """Who owns each load, so that all together hold about their shares of the sum.

    The largest are given away first, to one of those in whose share it still fits; the more is left of that, the
    likelier.
    """
    whole = sum(loads)
    left = [share * whole for share in shares]
    result = [0] * len(loads)
    for place in sorted(range(len(loads)), key=lambda place: (-loads[place], place)):
        totals = list(accumulate(room if room >= loads[place] else 0.0 for room in left))
        owner = stream.pick(totals) if totals[-1] > 0.0 else left.index(max(left))
        left[owner] -= loads[place]
        result[place] = owner
    return result
