"""What is believed of durations while jobs run: predictions, and what becomes of them when they prove wrong."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.model import INFINITY, NEVER, Job
from dally.policies.part import Part
from dally.policies.prediction.base import Predictor

LEAST_GUESS_S = 1.0  # a prediction of 0 could be doubled for ever


@mypyc_attr(allow_interpreted_subclasses=True)
class Guesses(Part):
    """The predictions made at submission; a job that outlasts its own is taken to last twice as long, and again."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor: Predictor = predictor
        self.exact: bool = predictor.is_exact()
        self._doubled_s: dict[int, float] = {}

    def guess_s(self, job: Job) -> float:
        """How long the job will run in all, at full speed, or NEVER."""
        if self.exact:
            return job.duration_s
        if job.predicted_s < 0.0:
            return NEVER
        return self._doubled_s.get(int(job.index), max(job.predicted_s, LEAST_GUESS_S))

    def left_s(self, job: Job, now: float) -> float:
        """Seconds of work left at full speed; 0 without a prediction."""
        guess_s = self.guess_s(job)
        if guess_s < 0.0:
            return 0.0
        left = guess_s - job.done_s(now)
        return left if left > 0.0 else 0.0

    def end_s(self, job: Job) -> float:
        """When a running job ends if its speed stays and the guess is right; infinity without a prediction."""
        guess_s = self.guess_s(job)
        return job.since_s + (guess_s - job.work_s) / job.rate if guess_s >= 0.0 else INFINITY

    def double(self, job: Job, now: float) -> None:
        """The job runs longer than that."""
        guess_s = 2.0 * self.guess_s(job)
        while guess_s <= job.done_s(now):
            guess_s *= 2.0
        self._doubled_s[int(job.index)] = guess_s

    def forget(self, job: Job) -> None:
        """The job will never finish: there is nothing to learn from it."""
        self._doubled_s.pop(int(job.index), 0.0)

    def finished(self, job: Job, now: float) -> None:
        """The job is done: learn from it."""
        self.predictor.learn(job, now)
        self._doubled_s.pop(int(job.index), 0.0)
