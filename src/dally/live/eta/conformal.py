"""Intervals that hold as often as they say: widened or narrowed by how earlier ones fared.

The futures know the durations' spread and not what the model leaves out, so their own quantiles are too sure of
themselves. Each end of an interval is moved, on a logarithmic scale, by the quantile of how far earlier truths lay
beyond it (conformalized quantile regression; Romano, Patterson and Candès, 2019); which quantile that is, is itself
corrected after each hit and miss (adaptive conformal inference; Gibbs and Candès, 2021).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log
from typing import Final

from dally.live.eta.fates import quantile
from dally.model import INFINITY

CONFIDENCE: Final = 0.8
SOFT_S: Final = 60.0  # waits differ by their logarithm, but for such short ones
LATEST: Final = 300  # truths that count
FEWEST: Final = 10  # before these nothing is corrected
RATE: Final = 0.02  # by how much a miss moves the level
FARTHEST_S: Final = 30.0 * 86400.0


@dataclass(frozen=True)
class Interval:
    """A wait in seconds from the question; infinity: beyond what the futures saw."""

    low_s: float
    middle_s: float
    high_s: float


@dataclass(frozen=True)
class Truth:
    """How a question fared: the job started after so long, or waits on after so long."""

    raw: Interval
    wait_s: float
    started: bool = True


class Margins:
    """By how much each end is moved, learnt from questions in the order in which they were answered."""

    def __init__(self, truths: Iterable[Truth] = (), confidence: float = CONFIDENCE) -> None:
        self._aside = (1.0 - confidence) / 2.0  # of truths, on either side
        self._below: list[float] = []  # by how much truths lay below the low end; less than 0: above it
        self._above: list[float] = []
        self._middle: list[float] = []
        self._low_level = self._high_level = 1.0 - self._aside
        for truth in truths:
            self.learn(truth)

    def learn(self, truth: Truth) -> None:
        """A question was answered, or is overdue: it counts as soon as the wait is longer than foreseen."""
        wait = _soft(truth.wait_s)
        low, high = _soft(truth.raw.low_s), _soft(truth.raw.high_s)
        self._low_level = self._moved(self._low_level, self._below, low - wait)
        self._high_level = self._moved(self._high_level, self._above, wait - high)
        self._middle.append(wait - _soft(truth.raw.middle_s))
        for scores in (self._below, self._above, self._middle):
            del scores[:-LATEST]

    def _moved(self, level: float, scores: list[float], score: float) -> float:
        """The level after one more truth, whose score joins the others."""
        if len(scores) >= FEWEST:
            missed = score > beyond(scores, level)
            level = min(1.0, max(0.5, level + RATE * ((1.0 if missed else 0.0) - self._aside)))
        scores.append(score)
        return level

    def known(self) -> int:
        """Questions answered so far, as far as they count."""
        return len(self._middle)

    def interval(self, raw: Interval) -> Interval:
        """The interval that holds as often as it should."""
        if len(self._middle) < FEWEST:
            return raw
        low = _hard(_soft(raw.low_s) - beyond(self._below, self._low_level))
        high = _hard(_soft(raw.high_s) + beyond(self._above, self._high_level))
        middle = _hard(_soft(raw.middle_s) + quantile(sorted(self._middle), 0.5))
        low = min(low, middle)
        return Interval(low, middle, max(high, middle))


def beyond(scores: list[float], level: float) -> float:
    """The score that one more will exceed with a chance of 1 - level: a little farther out where there are few."""
    return quantile(sorted(scores), min(1.0, level * (len(scores) + 1) / len(scores)))


def _soft(wait_s: float) -> float:
    return log(min(wait_s, FARTHEST_S) + SOFT_S)


def _hard(soft: float) -> float:
    wait_s = max(0.0, exp(soft) - SOFT_S)
    return wait_s if wait_s < FARTHEST_S else INFINITY
