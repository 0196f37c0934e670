"""Tiresias: its two orders, its rule of who stays together, and its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dally.errors import InputError
from dally.policies.base import Param, Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.consolidating import ConsolidatingPolicy
from dally.policies.declaration import NamedPolicy
from dally.policies.ordering.base import Order
from dally.policies.ordering.discrete_las import DiscreteLas, GittinsLas
from dally.policies.placement.best_fit import BestFit
from dally.policies.placement.closest_tier import TIER, at_tier, holds_closest
from dally.policies.placement.skew import SkewPlacement
from dally.policies.preemption.event import EventPreemption
from dally.policies.settings import Settings, numbers

PAPER: Final = "Gu et al., Tiresias, NSDI 2019"
PLACEMENT: Final = "skewed models at their closest tier"
AUTO: Final = "auto"
PARAMS: Final = (
    Param("limits", AUTO, "GPU-seconds at which jobs fall to the next queue (3250,7200,18000); auto: learnt"),
    Param(
        "promote",
        float("inf"),
        "a job that waited so many times as long as it ran returns to the first queue; inf: never",
    ),
    Param("skew", 0.29, "largest tensor ÷ model from which on gangs stay together; above 1: none do"),
    Param("learn_from", 10, "finished jobs from which on limits and indices are learnt", 1),
    TIER,
)


def _tiresias(order: Callable[[list[float], Settings], Order]) -> Callable[[Settings], Policy]:
    def make(settings: Settings) -> Policy:
        ranks = order(_limits(settings["limits"]), settings)
        if settings["skew"] > 1.0 and not holds_closest(settings["tier"]):
            return ComposedPolicy(ranks, BestFit(), EventPreemption())
        placement = at_tier(SkewPlacement(settings["skew"]), settings["tier"])
        return ConsolidatingPolicy(ranks, placement, EventPreemption())

    return make


def _limits(text: str) -> list[float]:
    """The limits of queues in GPU-seconds; none if they are to be learnt."""
    if text == AUTO:
        return []
    limits = numbers("limits", text, "auto, or GPU-seconds in rising order, such as 3250,7200,18000")
    if sorted(set(limits)) != limits or not 0.0 < limits[0] <= limits[-1] < float("inf"):
        raise InputError(f"--set limits={text}: must rise from above 0, and be finite")
    return limits


def _queues(limits: list[float], settings: Settings) -> Order:
    return DiscreteLas(limits, settings["promote"], settings["learn_from"])


def _gittins(limits: list[float], settings: Settings) -> Order:
    return GittinsLas(limits, settings["promote"], settings["learn_from"])


TIRESIAS: Final = NamedPolicy(
    "tiresias", _tiresias(_queues), "queues by attained GPU-time", PLACEMENT, "every event", "models", PAPER, PARAMS
)
TIRESIAS_GITTINS: Final = NamedPolicy(
    "tiresias-gittins", _tiresias(_gittins), "Gittins index of attained GPU-time", PLACEMENT, "every event",
    "models", PAPER, PARAMS,
)  # fmt: skip
