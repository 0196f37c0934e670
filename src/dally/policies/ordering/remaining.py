"""Orders by how long a job takes: known, or predicted."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import CANCELLED, INFINITY, Job
from dally.policies.ordering.base import Order
from dally.policies.prediction.base import Oracle, Predictor
from dally.policies.prediction.guesses import Guesses


@mypyc_attr(allow_interpreted_subclasses=True)
class PredictedOrder(Order):
    """Ranks by predictions. A job without one counts as done: such jobs go first, as they came."""

    def __init__(self, predictor: Predictor | None = None) -> None:
        self.predictor = predictor if predictor is not None else Oracle()
        self.guesses: Guesses = Guesses(self.predictor)

    def finished(self, job: Job, now: float) -> None:
        self.guesses.finished(job, now)

    def withdrawn(self, job: Job, now: float) -> None:
        if job.status == CANCELLED:
            self.guesses.forget(job)


class ShortestJob(PredictedOrder):
    """By duration."""

    def key(self, job: Job, now: float) -> float:
        return max(0.0, self.guesses.guess_s(job))


@mypyc_attr(allow_interpreted_subclasses=True)
class RemainingOrder(PredictedOrder):
    """Ranks by the work left: what was predicted less what is done.

    The key of a running job rises at the moments when it outlasts the guess, and `changed` says so.
    """

    def __init__(self, predictor: Predictor | None = None) -> None:
        super().__init__(predictor)
        self._running: dict[int, Job] = {}
        self._ends: IndexedHeap = IndexedHeap()  # running jobs by when they outlast the guess

    def started(self, job: Job, now: float) -> None:
        if not self.guesses.exact:
            self._running[int(job.index)] = job
            self._ends.put(job.index, self.guesses.end_s(job), 0.0)

    def rerated(self, job: Job, now: float) -> None:
        if self._ends.holds(job.index):
            self._ends.put(job.index, self.guesses.end_s(job), 0.0)

    def stopped(self, job: Job, now: float) -> None:
        if self._ends.holds(job.index):
            if self._ends.key(job.index) <= now:
                self.guesses.double(job, now)
            self._ends.remove(job.index)
            del self._running[int(job.index)]

    def changed(self, now: float, cluster: Cluster) -> list[Job]:
        jobs: list[Job] = []
        while self.wakeup_s() <= now:
            job = self._running[int(self._ends.first())]
            self.guesses.double(job, now)
            self._ends.put(job.index, self.guesses.end_s(job), 0.0)
            jobs.append(job)
        return jobs

    def wakeup_s(self) -> float:
        return self._ends.key(self._ends.first()) if len(self._ends) > 0 else INFINITY


class ShortestRemaining(RemainingOrder):
    """By work left, in seconds at full speed."""

    def key(self, job: Job, now: float) -> float:
        return self.guesses.left_s(job, now)


class SmallestRemaining(RemainingOrder):
    """By work left times GPUs: remaining service."""

    def key(self, job: Job, now: float) -> float:
        return self.guesses.left_s(job, now) * float(job.gpus)
