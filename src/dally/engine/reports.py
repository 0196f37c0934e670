"""What jobs of a simulation say of their own progress: after some work, how long they take in all."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.engine.draws import uniform
from dally.heap import IndexedHeap
from dally.model import INFINITY, REPORT, Event, Job
from dally.pickles import picklable

_STREAM: Final = 7_000_001  # of draws: no other draws with it
LEAST: Final = 0.05  # of its duration that a job states at least, however much noise


@mypyc_attr(allow_interpreted_subclasses=True)
class Reports:
    """A share of jobs states its duration after so many seconds of work: with noise, and some of them wrongly.

    A wrong statement is `factor` times too long or too short, with equal odds.
    """

    def __init__(
        self,
        share: float = 0.0,
        after_s: float = 300.0,
        noise: float = 0.1,
        wrong: float = 0.0,
        factor: float = 5.0,
        seed: i64 = 1,
    ) -> None:
        self.share: float = share
        self.after_s: float = after_s
        self.noise: float = noise
        self.wrong: float = wrong
        self.factor: float = factor
        self.seed: i64 = seed
        self._due: IndexedHeap = IndexedHeap()  # running jobs by when they will have worked that long

    def expect(self, job: Job) -> None:
        """The job was placed, changed speed or stopped: when it has something to say is another moment."""
        if job.reported_s > 0.0 or job.duration_s <= self.after_s or not self._speaks(job):
            return
        if job.allocation is None or job.rate <= 0.0:
            self._due.discard(job.index)
            return
        left_s = self.after_s - job.work_s
        self._due.put(job.index, job.since_s + (left_s if left_s > 0.0 else 0.0) / job.rate, 0.0)

    def next_s(self) -> float:
        """When the next job has something to say."""
        return self._due.key(self._due.first()) if len(self._due) > 0 else INFINITY

    def collect(self, now: float, jobs: list[Job], events: list[Event]) -> None:
        """Have all jobs that are due say how long they take."""
        while len(self._due) > 0 and self._due.key(self._due.first()) <= now:
            job = jobs[self._due.pop()]
            job.reported_s = self.stated_s(job)
            events.append(Event(REPORT, job))

    def stated_s(self, job: Job) -> float:
        """What the job states as its duration."""
        spread = -6.0  # twelve uniform draws less 6 are as good as normal here, and the same on any machine
        for place in range(12):
            spread += uniform(self.seed, _STREAM + 2 + place, job.index)
        stated_s = job.duration_s * max(LEAST, 1.0 + self.noise * spread)
        wrong = uniform(self.seed, _STREAM + 1, job.index)
        if wrong < self.wrong:
            stated_s = stated_s * self.factor if wrong < 0.5 * self.wrong else stated_s / self.factor
        return stated_s

    def _speaks(self, job: Job) -> bool:
        return uniform(self.seed, _STREAM, job.index) < self.share


picklable(Reports)
