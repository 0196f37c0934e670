"""Delay timers: how long a gang declines a farther tier. Set by operators, fixed, or tuned from recent waits."""

from __future__ import annotations

from math import ceil, nextafter, sqrt

from mypy_extensions import i64, mypyc_attr

from dally.model import INFINITY
from dally.pickles import picklable
from dally.policies.part import Part


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayOverrides(Part):
    """Seconds by gang size; sizes that are not named have the policy's own delays."""

    def __init__(self) -> None:
        self.sizes: dict[int, float] = {}  # seconds, by GPUs
        self.changed: bool = False  # since a policy that looks at it last set it back

    def set_s(self, gpus: int, delay_s: float) -> None:
        """Gangs of that size decline farther places for so long; below 0: as long as the policy thinks fit."""
        self.changed = True
        self.sizes.pop(gpus, None)
        if delay_s >= 0.0:
            self.sizes[gpus] = delay_s


@mypyc_attr(allow_interpreted_subclasses=True)
class Timers(DelayOverrides):
    """Fixed timers, in leases by tier above the machine; further tiers double the last one."""

    def __init__(self, lease_s: float, floors: list[float]) -> None:
        super().__init__()
        self.lease_s: float = lease_s
        self.floors: list[float] = floors

    def floor(self, tier: i64) -> float:
        """The least timer of a tier (1 is the first above the machine), in leases."""
        count: i64 = len(self.floors)
        if tier <= count:
            return self.floors[tier - 1]
        return self.floors[count - 1] * float(2 ** int(tier - count))

    def wait_s(self, tier: i64, last: i64, gpus: i64, now: float) -> float:
        """How long a gang of that size waits before it takes that tier; `last` is the whole network's.

        No tier is refused by one who would take a farther one.
        """
        if self.sizes:
            override_s = self.sizes.get(int(gpus), -1.0)
            if override_s >= 0.0:
                return override_s
        least = INFINITY
        for farther in range(tier, last + 1):
            timer_s = self.timer_s(farther, last, gpus, now)
            if timer_s < least:
                least = timer_s
        return least

    def timer_s(self, tier: i64, last: i64, gpus: i64, now: float) -> float:
        """T_k(g) of one tier by itself."""
        floor = self.floor(tier)
        return self.lease_s * floor if floor > 0.0 else 0.0  # also when leases never end

    def note(self, tier: i64, gpus: i64, now: float, wait_s: float) -> None:
        """A gang of that size took that tier after waiting so long."""

    def changes_s(self, tier: i64, last: i64, gpus: i64, now: float) -> float:
        """When these timers may change by the passing of time alone."""
        return INFINITY

    def samples(self) -> list[tuple[int, int, float, float]]:
        """What was learnt, as (tier, GPUs, time, wait in leases) rows."""
        return []

    def restore(self, samples: list[tuple[int, int, float, float]]) -> None:
        """Go on with what was learnt before."""


class Window:
    """Recent waits of one demand at one tier, in leases."""

    __slots__ = ("first", "stat", "times", "waits")

    def __init__(self) -> None:
        self.times: list[float] = []
        self.waits: list[float] = []
        self.first: i64 = 0  # the oldest that still counts
        self.stat: float = -1.0  # not worked out since the last change


picklable(Window)


@mypyc_attr(allow_interpreted_subclasses=True)
class TunedTimers(Timers):
    """The auto-tuner: T_k(g) = L · min(cap_k, max(floor_k, ⌈mean + spread · std⌉)) of recent waits for tier k - 1.

    Waits of less than a lease are not kept, nor those older than `history` leases; without any the
    statistic is 1. The cap rises in even steps from `first_cap` of the history at tier 1 to all of it.
    """

    def __init__(
        self, lease_s: float, floors: list[float], history: float, first_cap: float, spread: float
    ) -> None:
        super().__init__(lease_s, floors)
        self._history: float = history
        self._first_cap: float = first_cap
        self._spread: float = spread
        self._windows: dict[int, Window] = {}

    def _window(self, tier: i64, gpus: i64) -> Window:
        key = int(gpus * 64 + tier)
        window = self._windows.get(key)
        if window is None:
            window = Window()
            self._windows[key] = window
        return window

    def note(self, tier: i64, gpus: i64, now: float, wait_s: float) -> None:
        if wait_s < self.lease_s:
            return
        window = self._window(tier, gpus)
        self._forget(window, now)
        window.times.append(now)
        window.waits.append(wait_s / self.lease_s)
        window.stat = -1.0

    def timer_s(self, tier: i64, last: i64, gpus: i64, now: float) -> float:
        leases = max(self.floor(tier), float(ceil(self.statistic(tier - 1, gpus, now))))
        return self.lease_s * min(self.cap(tier, last), leases)

    def cap(self, tier: i64, last: i64) -> float:
        """The largest timer of a tier, in leases."""
        share = self._first_cap
        if last > 1:
            share += (1.0 - self._first_cap) * float(tier - 1) / float(last - 1)
        return float(ceil(share * self._history - 1e-9))  # 0.8 · 25 is 20, whatever floats make of it

    def statistic(self, tier: i64, gpus: i64, now: float) -> float:
        """Mean + spread · std (population) of the waits that count now, in leases."""
        window = self._window(tier, gpus)
        self._forget(window, now)
        if window.stat < 0.0:
            window.stat = self._statistic(window)
        return window.stat

    def _statistic(self, window: Window) -> float:
        count = len(window.waits) - int(window.first)
        if count == 0:
            return 1.0
        total = 0.0
        for place in range(int(window.first), len(window.waits)):
            total += window.waits[place]
        mean = total / float(count)
        square = 0.0
        for place in range(int(window.first), len(window.waits)):
            square += (window.waits[place] - mean) * (window.waits[place] - mean)
        return mean + self._spread * sqrt(square / float(count))

    def _forget(self, window: Window, now: float) -> None:
        while window.first < len(window.times) and self._ends_s(window) < now:
            window.first += 1
            window.stat = -1.0
        if window.first > 256 and 2 * window.first > len(window.times):
            window.times = window.times[int(window.first) :]
            window.waits = window.waits[int(window.first) :]
            window.first = 0

    def _ends_s(self, window: Window) -> float:
        """The last moment at which the oldest wait counts."""
        return window.times[window.first] + self._history * self.lease_s

    def changes_s(self, tier: i64, last: i64, gpus: i64, now: float) -> float:
        soonest = INFINITY
        for farther in range(tier, last + 1):
            window = self._window(farther - 1, gpus)
            self._forget(window, now)
            if window.first < len(window.times):
                soonest = min(soonest, nextafter(self._ends_s(window), INFINITY))
        return soonest

    def samples(self) -> list[tuple[int, int, float, float]]:
        rows: list[tuple[int, int, float, float]] = []
        for key in sorted(self._windows):
            window = self._windows[key]
            for place in range(int(window.first), len(window.times)):
                rows.append((key % 64, key // 64, window.times[place], window.waits[place]))
        return rows

    def restore(self, samples: list[tuple[int, int, float, float]]) -> None:
        self._windows.clear()
        for tier, gpus, time_s, leases in samples:
            window = self._window(tier, gpus)
            window.times.append(time_s)
            window.waits.append(leases)
