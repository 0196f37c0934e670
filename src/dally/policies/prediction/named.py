"""The predictors by name, as `--set predictor=` takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dally.errors import unknown
from dally.policies.base import Param
from dally.policies.prediction.base import NoPrediction, Oracle, Predictor
from dally.policies.prediction.forest import Forest
from dally.policies.prediction.history import HistoryPredictor

PREDICTORS: Final[dict[str, Callable[[], Predictor]]] = {
    "oracle": Oracle,
    "none": NoPrediction,
    "history": HistoryPredictor,
    "forest": Forest,
}
PREDICTOR: Final = Param("predictor", "oracle", "source of duration estimates: oracle, none, history or forest")


def make_predictor(name: str) -> Predictor:
    """A new predictor of that name, or an InputError that suggests the nearest name."""
    if name not in PREDICTORS:
        raise unknown("predictor", name, PREDICTORS)
    return PREDICTORS[name]()
