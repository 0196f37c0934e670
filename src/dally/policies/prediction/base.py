"""What a predictor is, and the two that learn nothing: one says nothing, one knows all."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.model import NEVER, Job
from dally.policies.part import Part


@mypyc_attr(allow_interpreted_subclasses=True)
class Predictor(Part):
    """Says how long a job will run, from what it has learnt of jobs that finished.

    The duration of a job that has not finished is not to be read: a live scheduler does not know it.
    """

    def predict_s(self, job: Job, now: float) -> float:
        """The predicted `duration_s` of a job submitted now, or NEVER. Asked once per job."""
        return NEVER

    def learn(self, job: Job, now: float) -> None:
        """The job finished: its duration is known now."""

    def teach(self, past: list[Job]) -> None:
        """Learn from jobs of an earlier time, as if each had started when it was submitted.

        A job that had not ended when the last of them came teaches nothing: its duration was not known then.
        """
        last_s = max((job.submit_s for job in past), default=0.0)
        moments: list[tuple[float, int, int]] = []  # moment, 1 for a submission, place; ends first, but for its own
        for place in range(len(past)):
            submit_s = past[place].submit_s
            end_s = submit_s + past[place].duration_s
            if end_s <= last_s:
                moments.append((submit_s, 1, place))
                moments.append((end_s, 2 if end_s == submit_s else 0, place))
        moments.sort()
        for now, phase, place in moments:
            if phase == 1:
                self.predict_s(past[place], now)
            else:
                self.learn(past[place], now)

    def is_exact(self) -> bool:
        """Whether no job can outlast its prediction."""
        return False


class NoPrediction(Predictor):
    """Predicts no job's duration: orders that rank by it fall back to order of submission."""


class Oracle(Predictor):
    """Knows every duration."""

    def predict_s(self, job: Job, now: float) -> float:
        return job.duration_s

    def is_exact(self) -> bool:
        return True
