"""Tiresias: its two orders, its placement by skew, and its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.errors import InputError
from dally.model import Allocation, Job
from dally.policies.base import Param, Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.consolidating import ConsolidatingPolicy
from dally.policies.declaration import NamedPolicy
from dally.policies.ordering.base import Order
from dally.policies.ordering.discrete_las import DiscreteLas, GittinsLas
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import BestFit, best_fit
from dally.policies.placement.closest_tier import TIER, at_tier, holds_closest
from dally.policies.preemption.rules import EventPreemption
from dally.policies.settings import Settings, numbers


@mypyc_attr(allow_interpreted_subclasses=True)
class SkewPlacement(Placement):
    """A gang whose model is skewed is placed at its closest tier or not at all; others go where there is room.

    Gu et al., Tiresias, NSDI 2019: skew is the largest tensor over the model's size. The paper finds that VGG and
    AlexNet must stay together and that ResNet and Inception need not, and states no limit. Ours lies in the middle,
    by ratio, of the gap between AlexNet's skew of 0.61 and Inception v3's of 0.138. The paper learns skew from
    the network traffic of a profiled run; here it is in the catalogue of models. A job whose model is unknown
    counts as not skewed.
    """

    def __init__(self, skew: float) -> None:
        self._skew: float = skew  # from which on gangs must stay together
        self._known: dict[str, bool] = {}

    def must_consolidate(self, job: Job) -> bool:
        """Whether the gang has to stay together."""
        skewed = self._known.get(job.model)
        if skewed is None:
            profile = self.view.profile(job)
            skewed = profile is not None and profile.skew >= self._skew
            self._known[job.model] = skewed
        return skewed

    def kind(self, job: Job) -> int:
        return 1 if self.must_consolidate(job) else 0

    def widest(self, job: Job, cluster: Cluster) -> i64:
        if self.must_consolidate(job):
            return cluster.closest_tier(job)
        return cluster.root

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        for tier in range(self.widest(job, cluster) + 1):
            allocation = best_fit(cluster, tier, job.gpus, job.group)
            if allocation is not None:
                return allocation
        return None


PAPER: Final = "Gu et al., Tiresias, NSDI 2019"
PLACEMENT: Final = "skewed models at their closest tier"
AUTO: Final = "auto"
PARAMS: Final = (
    Param("limits", AUTO, "GPU-seconds at which jobs fall to the next queue (3250,7200,18000); auto: learnt"),
    Param(
        "promote",
        float("inf"),
        "a job that waited this many times as long as it ran returns to the first queue; inf: never",
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
