"""What the speeds of running jobs would be if a link had less bandwidth, from a copy of the speed model.

A job that a narrow link slows leaves more of its other links to its neighbours, so jobs far from it may run faster,
and one that shares a link with these slower. No share of a step says that; the model does.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log

from dally.model import Job
from dally.perf.base import SpeedModel


class LinkEffects:
    """Follows the jobs that run on a cluster, and answers for each link and factor."""

    def __init__(self, expected: SpeedModel) -> None:
        self._model: SpeedModel = expected
        self._places: dict[int, float] = {}  # by job on the copy: since when it is at its place
        self._rates: dict[int, float] = {}
        self._effects: dict[tuple[int, float], dict[int, float]] = {}

    def follow(self, jobs: Iterable[Job]) -> None:
        """These jobs run now, each where its allocation says."""
        running = {int(job.index): job for job in jobs}
        gone = [index for index, since_s in self._places.items() if self._since_s(running, index) != since_s]
        new = [job for index, job in running.items() if index in gone or index not in self._places]
        if not gone and not new:
            return
        # Anew: of a job that left, the copy has the place no more.
        self._model = self._model.anew("")
        self._rates.clear()
        self._effects.clear()
        self._places = {index: job.placed_s for index, job in running.items()}
        for job in running.values():
            for speed in self._model.placed(job):
                self._rates[int(speed.job.index)] = speed.rate

    @staticmethod
    def _since_s(running: dict[int, Job], index: int) -> float:
        return running[index].placed_s if index in running else -1.0

    def of(self, link: int, factor: float) -> dict[int, float]:
        """By job: the logarithm of how many times as long its step takes if transfers over the link do."""
        known = self._effects.get((link, factor))
        if known is None:
            known = {}
            for speed in self._model.narrowed(link, 1.0 / factor):
                usual = self._rates.get(int(speed.job.index), speed.rate)
                known[int(speed.job.index)] = log(usual / speed.rate)
            self._model.narrowed(link, 1.0)
            self._effects[link, factor] = known
        return known
