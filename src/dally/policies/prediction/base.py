"""What a predictor is."""

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

    def is_exact(self) -> bool:
        """Whether no job can outlast its prediction."""
        return False
