"""How long steps take in a simulation, as jobs' progress has it: once at each place, and as that changes."""

from __future__ import annotations

from math import exp
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.engine.draws import uniform
from dally.heap import IndexedHeap
from dally.model import INFINITY, MEASURE, Event, Job
from dally.pickles import picklable

_STREAM: Final = 7_000_101  # of draws: no other draws with it
AFTER_S: Final = 60.0  # of work at a speed, before it is measured
AGAIN_S: Final = 300.0  # between two measurements of a job, at least
NOISE: Final = 0.03  # standard deviation of a measurement ÷ what it measures


@mypyc_attr(allow_interpreted_subclasses=True)
class Measurements:
    """Seconds per step of gangs, in units of their own: how long one takes elsewhere is not known."""

    def __init__(self, seed: i64 = 1, on: bool = False) -> None:
        self.seed: i64 = seed
        self.on: bool = on
        self._due: IndexedHeap = IndexedHeap()  # running gangs by when they are measured
        self._latest: dict[int, float] = {}  # when each was
        self._count: i64 = 0

    def expect(self, job: Job, now: float) -> None:
        """The job was placed, changed speed or stopped."""
        if job.gpus < 2:
            return
        if job.allocation is None or job.rate <= 0.0:
            self._due.discard(job.index)
            if job.finish_s >= 0.0:
                self._latest.pop(int(job.index), None)
            return
        due_s = max(now, job.since_s) + AFTER_S
        self._due.put(job.index, max(due_s, self._latest.get(int(job.index), -INFINITY) + AGAIN_S), 0.0)

    def next_s(self) -> float:
        """When the next gang is measured."""
        return self._due.key(self._due.first()) if len(self._due) > 0 else INFINITY

    def collect(self, now: float, jobs: list[Job], events: list[Event]) -> None:
        """Measure all gangs that are due."""
        while len(self._due) > 0 and self._due.key(self._due.first()) <= now:
            job = jobs[self._due.pop()]
            self._latest[int(job.index)] = now
            self._count += 1
            events.append(Event(MEASURE, job, step_s=exp(NOISE * self._spread(job)) / job.rate))

    def _spread(self, job: Job) -> float:
        """Twelve uniform draws less 6: as good as normal here, and the same on any machine."""
        spread = -6.0
        for place in range(12):
            spread += uniform(self.seed, _STREAM + place + 12 * self._count, job.index)
        return spread


picklable(Measurements)
