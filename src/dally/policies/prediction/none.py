"""The predictor that says nothing."""

from __future__ import annotations

from dally.policies.prediction.base import Predictor


class NoPrediction(Predictor):
    """Predicts no job's duration: orders that rank by it fall back to order of submission."""
