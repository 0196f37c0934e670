"""The predictor that cannot be had outside a simulation."""

from __future__ import annotations

from dally.model import Job
from dally.policies.prediction.base import Predictor


class Oracle(Predictor):
    """Knows every duration."""

    def predict_s(self, job: Job, now: float) -> float:
        return job.duration_s

    def is_exact(self) -> bool:
        return True
