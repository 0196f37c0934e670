"""Orders by how long a job takes: known, or predicted."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.heap import IndexedHeap
from dally.model import INFINITY, Job
from dally.policies.ordering.base import Order
from dally.policies.prediction.base import Predictor
from dally.policies.prediction.oracle import Oracle

LEAST_GUESS_S = 1.0  # a prediction of 0 could be doubled for ever


@mypyc_attr(allow_interpreted_subclasses=True)
class PredictedOrder(Order):
    """Holds the predictor. A job without a prediction counts as done: such jobs go first, as they came."""

    def __init__(self, predictor: Predictor | None = None) -> None:
        self.predictor: Predictor = predictor if predictor is not None else Oracle()
        self.exact: bool = self.predictor.is_exact()

    def predict_s(self, job: Job, now: float) -> float:
        return self.predictor.predict_s(job, now)

    def predicted_s(self, job: Job) -> float:
        """The prediction made at submission; an oracle's need not have been kept."""
        return job.duration_s if self.exact else job.predicted_s

    def finished(self, job: Job, now: float) -> None:
        self.predictor.learn(job, now)


class ShortestJob(PredictedOrder):
    """By duration."""

    def key(self, job: Job, now: float) -> float:
        return max(0.0, self.predicted_s(job))


@mypyc_attr(allow_interpreted_subclasses=True)
class RemainingOrder(PredictedOrder):
    """Knows the work left: what was predicted less what is done.

    A job that outlasts its prediction is taken to last twice as long, and again, until it is done. Its
    key rises at those moments, and `revised` says so.
    """

    def __init__(self, predictor: Predictor | None = None) -> None:
        super().__init__(predictor)
        self._doubled_s: dict[int, float] = {}  # the guess at jobs that outlasted the prediction
        self._running: dict[int, Job] = {}
        self._due: IndexedHeap = IndexedHeap()  # running jobs by when they outlast the guess

    def left_s(self, job: Job, now: float) -> float:
        """Seconds of work left at full speed, as far as one can tell; 0 without a prediction."""
        if self.predicted_s(job) < 0.0:
            return 0.0
        left = self._guess_s(job) - job.done_s(now)
        return left if left > 0.0 else 0.0

    def started(self, job: Job, now: float) -> None:
        if not self.exact and job.predicted_s >= 0.0:
            self._running[int(job.index)] = job
            self._expect(job)

    def rerated(self, job: Job, now: float) -> None:
        if self._due.holds(job.index):
            self._expect(job)

    def stopped(self, job: Job, now: float) -> None:
        if self._due.holds(job.index):
            if self._due.key(job.index) <= now:
                self._double(job, now)
            self._due.remove(job.index)
            del self._running[int(job.index)]

    def finished(self, job: Job, now: float) -> None:
        super().finished(job, now)
        self._doubled_s.pop(int(job.index), 0.0)

    def revised(self, now: float) -> list[Job]:
        found: list[Job] = []
        while len(self._due) > 0 and self._due.key(self._due.first()) <= now:
            job = self._running[int(self._due.first())]
            self._double(job, now)
            self._expect(job)
            found.append(job)
        return found

    def next_wakeup(self, now: float) -> float:
        return self._due.key(self._due.first()) if len(self._due) > 0 else INFINITY

    def _guess_s(self, job: Job) -> float:
        if self.exact:
            return job.duration_s
        return self._doubled_s.get(int(job.index), max(job.predicted_s, LEAST_GUESS_S))

    def _double(self, job: Job, now: float) -> None:
        # At least what is done: rounding must not make it due at this very moment again.
        self._doubled_s[int(job.index)] = 2.0 * max(self._guess_s(job), job.done_s(now))

    def _expect(self, job: Job) -> None:
        self._due.put(job.index, job.since_s + (self._guess_s(job) - job.work_s) / job.rate, 0.0)


class ShortestRemaining(RemainingOrder):
    """By work left, in seconds at full speed."""

    def key(self, job: Job, now: float) -> float:
        return self.left_s(job, now)


class SmallestRemaining(RemainingOrder):
    """By work left times GPUs: remaining service."""

    def key(self, job: Job, now: float) -> float:
        return self.left_s(job, now) * float(job.gpus)
