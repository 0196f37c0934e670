"""When bursts come: by hour of the day, by day of the week, on good days and bad ones.

The hours are quotas: over the whole trace each hour of the day gets its share of jobs to the job. On which day a
burst comes is left to chance and the days' weights.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from dally.traces.generate.campaigns import Burst
from dally.traces.generate.recipe import Recipe
from dally.traces.generate.stream import Stream, nearest_shares

HOUR_S: Final = 3600
DAY_S: Final = 86400
CAMPAIGN_DAYS: Final = 7  # a campaign comes again within so many days
LONGEST_BURST_S: Final = 3000.0


def draw_arrivals(recipe: Recipe, bursts: list[Burst], window_s: float, seed: int) -> list[list[int]]:
    """For each burst the times of its jobs in whole seconds, from 0 to the window's end."""
    stream = Stream(seed, recipe.name, "arrivals")
    if recipe.arrivals == "batch":
        return [[0] * len(burst.durations_s) for burst in bursts]
    if recipe.arrivals == "poisson":
        return [[int(stream.point() * window_s) for _ in burst.durations_s] for burst in bursts]
    result: list[list[int]] = [[] for _ in bursts]
    calendar = Calendar(recipe, window_s, sum(len(burst.durations_s) for burst in bursts), stream)
    # The longest first, while there is room for them in one hour.
    for place in sorted(range(len(bursts)), key=lambda place: (-len(bursts[place].durations_s), place)):
        burst = bursts[place]
        left = len(burst.durations_s)
        while left:
            hour, count = calendar.take_hour(left)
            day = calendar.day_of(burst.campaign, hour)
            result[place] += _spread(stream, calendar.open_s(day, hour), day * DAY_S + hour * HOUR_S, count, recipe)
            left -= count
    return result


def _spread(stream: Stream, open_s: float, begin_s: int, count: int, recipe: Recipe) -> list[int]:
    """Times of a burst within an hour of which `open_s` seconds belong to the window."""
    length_s = min(2.0 * recipe.burst_gap_s * (count - 1), LONGEST_BURST_S, open_s)
    start_s = begin_s + stream.point() * (open_s - length_s)
    return [int(start_s + stream.point() * length_s) for _ in range(count)]


class Calendar:
    """The window's days and hours, and how many jobs each hour of the day still gets."""

    def __init__(self, recipe: Recipe, window_s: float, jobs: int, stream: Stream) -> None:
        self.window_s = window_s
        self.stream = stream
        self.days = max(1, -int(-window_s // DAY_S))
        weights = [recipe.weekdays[day % 7] * _luck(stream, recipe.day_spread) for day in range(self.days)]
        self.totals = [0.0, *accumulate(weights)]
        open_days = [sum(self.open_s(day, hour) for day in range(self.days)) for hour in range(24)]
        quotas = [weight * open_s for weight, open_s in zip(recipe.hours, open_days, strict=True)]
        self.left = nearest_shares(jobs, quotas)
        self.homes: dict[int, int] = {}

    def open_s(self, day: int, hour: int) -> float:
        """How much of that hour lies in the window, in seconds."""
        return min(max(self.window_s - day * DAY_S - hour * HOUR_S, 0.0), float(HOUR_S))

    def take_hour(self, count: int) -> tuple[int, int]:
        """An hour of the day with room for so many jobs, or else the one with most room, and how many it takes."""
        room = [left if left >= count else 0 for left in self.left]
        hour = self.stream.pick(list(accumulate(room))) if any(room) else self.left.index(max(self.left))
        count = min(count, self.left[hour])
        self.left[hour] -= count
        return hour, count

    def day_of(self, campaign: int, hour: int) -> int:
        """A day that holds the hour: any for a campaign's first burst, one of the days after it for the others."""
        last = self.days - 1 if self.open_s(self.days - 1, hour) > 0.0 else self.days - 2
        home = self.homes.get(campaign)
        if home is None:
            home = self.homes[campaign] = self._day_between(0, last)
            return home
        return self._day_between(min(home, last), min(home + CAMPAIGN_DAYS - 1, last))

    def _day_between(self, first: int, last: int) -> int:
        low, high = self.totals[first], self.totals[last + 1]
        target = low + self.stream.point() * (high - low)
        return min(bisect_right(self.totals, target, first + 1, last + 1) - 1, last)


def _luck(stream: Stream, spread: float) -> float:
    """A factor around 1: the spread to the power of a number that is close to normal."""
    bell = stream.point() + stream.point() + stream.point() + stream.point() - 2.0
    return float(spread ** (bell * 1.7320508075688772))
