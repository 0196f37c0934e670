"""How long a job has left, with an interval, from its steps and their times, whatever interrupted them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import exp, log
from statistics import median
from typing import Any, Final, NamedTuple

from dally.progress.step_times import Segment, StepTimes

WARM_UP: Final = 0.2  # of the first samples of a segment: slow, until caches and kernels are ready
LEAST_SAMPLES: Final = 3  # of a segment, before its own pace counts
TRUST: Final = 12.0  # samples that the pace of earlier segments, times what the speed model says, counts for
PAUSE: Final = 3.0  # times the usual time per step from which on a gap is a pause
CONFIDENCE: Final = 0.8
# The share of the steps done, by which errors are counted apart: early estimates are worse.
STAGES: Final = (0.03, 0.08, 0.2, 0.5)
LATEST: Final = 400  # errors of a stage that count
FEWEST: Final = 30
RATE: Final = 0.02
USUAL: Final = (-0.25, 0.0, 0.25)  # logarithms of true ÷ estimated, before enough is known


class Left(NamedTuple):
    """Seconds of work left at the present place: the estimate, and between which it is 80 times out of 100."""

    low_s: float
    middle_s: float
    high_s: float


class Pace(NamedTuple):
    """Seconds per step between pauses, and what pauses add to each."""

    step_s: float
    pause_s: float
    samples: int


def pace_of(segment: Segment) -> Pace | None:
    """The pace of a segment after its warm-up; None where too little is known."""
    samples = segment.samples
    if len(samples) < LEAST_SAMPLES:
        return None
    skipped = min(int(WARM_UP * len(samples)) + 1, 5, len(samples) - LEAST_SAMPLES + 1)
    counted = samples[skipped:] if skipped < len(samples) - 1 else samples[-LEAST_SAMPLES + 1 :]
    gaps = [(later_s - earlier_s, later - earlier) for (earlier_s, earlier), (later_s, later) in pairwise(counted)]
    usual_s = median(seconds / steps for seconds, steps in gaps)
    pauses = [seconds - usual_s * steps for seconds, steps in gaps if seconds > PAUSE * usual_s * steps]
    plain = [(seconds, steps) for seconds, steps in gaps if seconds <= PAUSE * usual_s * steps]
    step_s = sum(seconds for seconds, _ in plain) / sum(steps for _, steps in plain)
    # One pause may never come again; several do.
    again = (len(pauses) - 0.5) / len(pauses) if pauses else 0.0
    return Pace(step_s, again * sum(pauses) / sum(steps for _, steps in gaps), len(gaps))


def step_seconds(segments: Sequence[Segment]) -> float | None:
    """Seconds per step at the latest place, pauses included; what was seen elsewhere counts by the speed model."""
    step_s = pause_s = 0.0
    weight = 0.0  # samples that they stand for
    for segment in segments:
        pace = pace_of(segment)
        if pace is None:
            continue
        earlier = min(weight, TRUST)
        count = earlier + pace.samples
        step_s = (earlier * step_s + pace.samples * pace.step_s / segment.slowdown) / count
        pause_s = (earlier * pause_s + pace.samples * pace.pause_s) / count  # evaluation takes as long elsewhere
        weight += pace.samples
    return step_s * segments[-1].slowdown + pause_s if weight > 0.0 else None


class RemainingTime:
    """Estimates for all jobs: their intervals are as wide as earlier errors at that stage ask for."""

    def __init__(self) -> None:
        self._errors: list[list[float]] = [[] for _ in range(len(STAGES) + 1)]  # logarithms of true ÷ estimated
        self._level = [1.0 - CONFIDENCE] * (len(STAGES) + 1)  # share of errors that may lie outside

    def raw_s(self, times: StepTimes) -> float | None:
        """Seconds of work left, before anything is corrected; None where the job has not printed enough."""
        seconds = step_seconds(times.segments) or times.printed_s
        if seconds is None or times.total is None:
            return None
        return max(0.0, times.total - times.done) * seconds

    def left(self, times: StepTimes) -> Left | None:
        """The estimate with its interval."""
        raw_s = self.raw_s(times)
        if raw_s is None or times.total is None:
            return None
        stage = stage_of(times.done / times.total if times.total else 1.0)
        errors = sorted(self._errors[stage])
        low, middle, high = USUAL
        if len(errors) >= FEWEST:
            outside = 0.5 * self._level[stage]
            low, middle, high = (_quantile(errors, share) for share in (outside, 0.5, 1.0 - outside))
        return Left(raw_s * exp(low), raw_s * exp(middle), raw_s * exp(high))

    def learn(self, share_done: float, raw_s: float, stated: Left | None, true_s: float) -> None:
        """A job ended for which an estimate had been made when that share of its steps was done."""
        if raw_s <= 0.0 or true_s < 0.0:
            return
        stage = stage_of(share_done)
        errors = self._errors[stage]
        if stated is not None and len(errors) >= FEWEST:
            missed = not stated.low_s <= true_s <= stated.high_s
            level = self._level[stage] + RATE * ((1.0 - CONFIDENCE) - float(missed))
            self._level[stage] = min(0.6, max(0.01, level))
        errors.append(log(max(true_s, 1e-3 * raw_s) / raw_s))
        del errors[:-LATEST]

    def saved(self) -> dict[str, Any]:
        """The errors of earlier estimates as plain values."""
        return {"errors": self._errors, "level": self._level}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on with what `saved` gave; of other stages it says nothing."""
        errors, level = saved["errors"], saved["level"]
        if len(errors) == len(level) == len(self._errors):
            self._errors = [[float(error) for error in stage] for stage in errors]
            self._level = [float(value) for value in level]


def stage_of(share_done: float) -> int:
    """Which of the stages a job is in."""
    return bisect_right(STAGES, share_done)


def _quantile(values: Sequence[float], share: float) -> float:
    """Of sorted values, with straight lines between them."""
    place = share * (len(values) + 1) - 1.0
    if place <= 0.0:
        return values[0]
    if place >= len(values) - 1:
        return values[-1]
    below = int(place)
    return values[below] + (place - below) * (values[below + 1] - values[below])
