"""The policy's row of `dally policies`: its parameters, and how settings become it."""

from __future__ import annotations

from typing import Final

from dally.errors import InputError
from dally.policies.base import Param, Policy
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.prediction.hazard import HazardTable
from dally.policies.priced.limits import Limits
from dally.policies.priced.policy import PricedPolicy
from dally.policies.settings import Settings

USUAL: Final = Limits()
LIMITS: Final = (
    Param("near_price", USUAL.near_price, "most a place at the closest tier may cost; 1: as fast as it gets", 1.0),
    Param("far_price", USUAL.far_price, "the same for farther tiers", 1.0),
    Param(
        "leftover_near_price",
        USUAL.leftover_near_price,
        "the same for those passed over",
        1.0,
    ),
    Param("leftover_far_price", USUAL.leftover_far_price, "and for them farther away", 1.0),
    Param("patient_price", USUAL.patient_price, "most they pay once their wait has paid for it", 1.0),
    Param("stick", USUAL.stick, "a running job's rank counts so many times; 1: no advantage", 0.0),
    Param("least_hold_s", USUAL.least_hold_s, "seconds for which a job keeps what it got"),
    Param("hold", USUAL.hold, "the same, at least so many restarts"),
    Param("least_excess", USUAL.least_excess, "slowdown over the best from which on a gang may move", 1.0),
    Param("least_saving_s", USUAL.least_saving_s, "seconds that a move must save"),
    Param("saving", USUAL.saving, "the same, at least so many restarts"),
    Param("most_moves", USUAL.most_moves, "moves tried per pass"),
    Param("wake_s", USUAL.wake_s, "seconds between two passes while somebody waits", 1.0),
    Param("migration", USUAL.migration, "move running gangs to faster places"),
    Param("compaction", USUAL.compaction, "move gangs out of the way of others"),
    Param("preemption", USUAL.preemption, "preempt worse-ranked gangs"),
)
LEARNING: Final = (
    Param("weight", 8.0, "jobs that the wider class counts for in a narrower one"),
    Param("forget", 0.03, "share of what a user's class forgets with each finish"),
    Param("by_user", True, "learn for each user apart"),
    Param("refresh_s", 600.0, "seconds after which all ranks are worked out again", 1.0),
)


def _priced(settings: Settings) -> Policy:
    if settings["forget"] > 1.0 or settings["weight"] <= 0.0:
        raise InputError("--set forget: must be a share from 0 to 1; --set weight: must be more than 0")
    table = HazardTable(settings["weight"], settings["forget"], by_user=settings["by_user"])
    limits = Limits(**{param.name: settings[param.name] for param in LIMITS})
    return PricedPolicy(GittinsOrder(table, settings["refresh_s"]), limits)


PRICED: Final = NamedPolicy(
    "dally-priced", _priced, "Gittins rank of learnt hazards", "closest tier, or almost free of charge",
    "every event; migration", NOTHING, "ours", (*LIMITS, *LEARNING),
)  # fmt: skip
