"""How fast a job works at one place against what it should, and when that changed."""

from __future__ import annotations

from math import isfinite, log
from typing import Final, NamedTuple

NOISE: Final = 0.05  # of a window's step time, as a share of it, until the job's own scatter is known
LEAST_NOISE: Final = 0.01
CHANGED: Final = 12.0  # log-likelihood ratio from which the speed is another than before
LEAST_CHANGE: Final = 0.04  # in logarithms of the step time: less is not worth a suspicion
LEAST_WINDOWS: Final = 2  # of one speed: a single one may be a wrong signal
LONGEST: Final = 48  # windows that are looked back
STEADY: Final = 0.02  # in logarithms of the expected step time: more is another situation
MOST: Final = log(20.0)  # a signal beyond this is cut: a clock that jumped says no more than a slow machine


class SpeedSegment(NamedTuple):
    """Windows of one speed: log(observed ÷ expected step time) on average, its standard error, how many."""

    mean: float
    error: float
    windows: int
    from_s: float
    until_s: float


class SpeedHistory:
    """A job at one place: windows since its speed last changed, and what it was before."""

    def __init__(self) -> None:
        self.before: SpeedSegment | None = None  # the speed before the latest change
        self.changes = 0
        self._windows: list[tuple[float, float]] = []  # moment, log of the ratio
        self._expected_s = 0.0  # of the latest window,
        self._steady = 0  # and for how many it has been that

    def observe(self, at_s: float, observed_s: float, expected_s: float) -> None:
        """A window's mean step time beside the expected one. What is no time is left out."""
        if not (isfinite(observed_s) and isfinite(expected_s) and observed_s > 0.0 and expected_s > 0.0):
            return
        self._windows.append((at_s, max(-MOST, min(MOST, log(observed_s / expected_s)))))
        other = not self._expected_s or abs(log(expected_s / self._expected_s)) > STEADY
        self._steady = 1 if other else self._steady + 1
        if other:
            self._expected_s = expected_s
        place = self._changed_at()
        if place:
            if place >= LEAST_WINDOWS:
                self.before = _segment(self._windows[:place])
            self.changes += 1
            del self._windows[:place]
        elif len(self._windows) > LONGEST:
            del self._windows[0]

    @property
    def now(self) -> SpeedSegment | None:
        """The speed since the latest change; None: nothing was observed yet."""
        return _segment(self._windows) if self._windows else None

    @property
    def steady(self) -> SpeedSegment | None:
        """The same since what is expected of it changed: beside others on a sick link its speed did too."""
        return _segment(self._windows[-self._steady :]) if self._windows else None

    def _changed_at(self) -> int:
        """The first window of another speed, by the likelihood ratio of one change; 0: none."""
        values = [value for _, value in self._windows]
        count, whole = len(values), sum(values)
        best, place, left = CHANGED, 0, 0.0
        for first in range(1, count):
            left += values[first - 1]
            change = (whole - left) / (count - first) - left / first
            ratio = first * (count - first) / count * change * change / (2.0 * NOISE * NOISE)
            if ratio > best and abs(change) > LEAST_CHANGE:
                best, place = ratio, first
        return place


def _segment(windows: list[tuple[float, float]]) -> SpeedSegment:
    values = [value for _, value in windows]
    count = len(values)
    mean = sum(values) / count
    spread = sum((value - mean) ** 2 for value in values)
    scatter = ((spread + 4.0 * NOISE * NOISE) / (count + 3.0)) ** 0.5  # as if four windows had been seen before
    return SpeedSegment(mean, max(LEAST_NOISE, scatter) / count**0.5, count, windows[0][0], windows[-1][0])
