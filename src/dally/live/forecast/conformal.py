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
from typing import Final, NamedTuple

from dally.live.forecast.future import quantile
from dally.model import INFINITY

CONFIDENCE: Final = 0.8
SOFT_S: Final = 60.0  # waits differ by their logarithm, but for such short ones
LATEST: Final = 300  # truths that count,
LIKE: Final = 40  # and of these the ones with the most similar middle
EPISODE_S: Final = 600.0  # answers given within that time are right or wrong together
FEWEST: Final = 10  # episodes; a daemon with fewer is not calibrated yet,
UNKNOWN: Final = log(10.0)  # and the missing ones count as off by a factor of ten at either end
RATE: Final = 0.02  # by how much a miss moves the level
FARTHEST_S: Final = 30.0 * 86400.0


@dataclass(frozen=True)
class Interval:
    """A wait in seconds from the question; infinity: beyond what the futures saw."""

    low_s: float
    middle_s: float
    high_s: float


@dataclass(frozen=True)
class Observation:
    """How a question fared: what the futures said, after how long the job started, and what had been told."""

    raw: Interval
    wait_s: float
    stated: Interval | None = None  # None: the job still waits
    requested_s: float = 0.0


class Score(NamedTuple):
    """How a truth lay, on a logarithmic scale: where the middle was, and how far beyond each of the three."""

    at: float
    below: float
    above: float
    off: float
    episode: int


class Margins:
    """By how much each end is moved: as the truths of the questions most like it would have asked for."""

    def __init__(self, observations: Iterable[Observation] = (), confidence: float = CONFIDENCE) -> None:
        """`truths` in the order in which they came out."""
        self._aside = (1.0 - confidence) / 2.0  # of truths, on either side
        self._scores: list[Score] = []
        self._low_level = self._high_level = 1.0 - self._aside
        for observation in observations:
            self.learn(observation)

    def learn(self, observation: Observation) -> None:
        """A job started of which something was said."""
        record = observation.stated  # not what would be told by now: answers that came meanwhile make that better
        if record is not None and self.calibrated():
            self._low_level = self._moved(self._low_level, observation.wait_s < record.low_s)
            self._high_level = self._moved(self._high_level, observation.wait_s > record.high_s)
        self._scores.append(_score(observation))
        del self._scores[:-LATEST]

    def _moved(self, level: float, missed: bool) -> float:
        return min(1.0, max(0.5, level + RATE * (float(missed) - self._aside)))

    def known(self) -> int:
        """Questions answered so far, as far as they count."""
        return len(self._scores)

    def calibrated(self) -> bool:
        """Whether enough questions were answered, at different times, to know how well intervals hold."""
        return self._episodes() >= FEWEST

    def _episodes(self) -> int:
        return len({score.episode for score in self._scores})

    def interval(self, raw: Interval, overdue: Iterable[Observation] = ()) -> Interval:
        """The interval that holds as often as it should.

        `overdue` are questions whose jobs still wait: those that wait longer than foreseen count already, or
        only those would that were soon answered.
        """
        late = [_score(observation) for observation in overdue if observation.wait_s > observation.raw.high_s]
        at = _soft(raw.middle_s)
        like = sorted([*self._scores, *late], key=lambda score: abs(score.at - at))[:LIKE]
        missing = self._missing(len(like))
        low = _soft(raw.low_s) - beyond([*(score.below for score in like), *missing], self._low_level)
        high = _soft(raw.high_s) + beyond([*(score.above for score in like), *missing], self._high_level)
        middle = at + (quantile(sorted(score.off for score in like), 0.5) if self.calibrated() else 0.0)
        low_s, middle_s, high_s = _hard(min(low, middle)), _hard(middle), _hard(max(high, middle))
        if raw.middle_s == INFINITY or not self.calibrated():  # errors about other jobs give a start no end
            middle_s = raw.middle_s
        return Interval(low_s, middle_s, INFINITY if raw.high_s == INFINITY else high_s)

    def _missing(self, like: int) -> list[float]:
        """What stands for the episodes that are not there yet, each as heavy as one that is."""
        episodes = self._episodes()
        if episodes >= FEWEST:
            return []
        return [UNKNOWN] * (-(-(FEWEST - episodes) * max(like, 1) // max(episodes, 1)))


def _score(observation: Observation) -> Score:
    wait, middle = _soft(observation.wait_s), _soft(observation.raw.middle_s)
    low, high = _soft(observation.raw.low_s), _soft(observation.raw.high_s)
    return Score(middle, low - wait, wait - high, wait - middle, int(observation.requested_s // EPISODE_S))


def beyond(scores: list[float], level: float) -> float:
    """The score that one more will exceed with a chance of 1 - level: a little farther out where there are few."""
    return quantile(sorted(scores), min(1.0, level * (len(scores) + 1) / len(scores)))


def _soft(wait_s: float) -> float:
    return log(min(wait_s, FARTHEST_S) + SOFT_S)


def _hard(soft: float) -> float:
    wait_s = max(0.0, exp(soft) - SOFT_S)
    return wait_s if wait_s < FARTHEST_S else INFINITY
