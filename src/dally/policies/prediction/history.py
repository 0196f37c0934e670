"""Medians of what finished before."""

from __future__ import annotations

from bisect import insort

from mypy_extensions import mypyc_attr

from dally.model import NEVER, Job
from dally.pickles import picklable
from dally.policies.prediction.base import Predictor


class Durations:
    """Durations of finished jobs that have something in common."""

    __slots__ = ("last_s", "ordered_s")

    def __init__(self) -> None:
        self.ordered_s: list[float] = []
        self.last_s: float = NEVER  # of the job that finished last

    def __len__(self) -> int:
        return len(self.ordered_s)

    def add(self, duration_s: float) -> None:
        insort(self.ordered_s, duration_s)
        self.last_s = duration_s

    def median_s(self) -> float:
        """The median, or NEVER of nothing."""
        return median(self.ordered_s)


picklable(Durations)


def median(ordered: list[float]) -> float:
    """The median of ordered values, or NEVER of nothing."""
    count = len(ordered)
    if count == 0:
        return NEVER
    half = count // 2
    return ordered[half] if count % 2 else (ordered[half - 1] + ordered[half]) / 2.0


@mypyc_attr(allow_interpreted_subclasses=True)
class HistoryPredictor(Predictor):
    """The median of finished jobs of the same user and size, else of the same size, else of all."""

    def __init__(self) -> None:
        self._of_user_and_size: dict[tuple[str, int], Durations] = {}
        self._of_size: dict[int, Durations] = {}
        self._of_all: Durations = Durations()

    def predict_s(self, job: Job, now: float) -> float:
        size = int(job.gpus)
        ring = self._of_user_and_size.get((job.user, size))
        if ring is None:
            ring = self._of_size.get(size, self._of_all)
        return ring.median_s()

    def learn(self, job: Job, now: float) -> None:
        size = int(job.gpus)
        self._of_user_and_size.setdefault((job.user, size), Durations()).add(job.duration_s)
        self._of_size.setdefault(size, Durations()).add(job.duration_s)
        self._of_all.add(job.duration_s)
