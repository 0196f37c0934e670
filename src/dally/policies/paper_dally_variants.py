"""The paper's Dally and its variants: their parameters, and how settings become timers and an order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dally.errors import InputError
from dally.policies.base import Param, Policy
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.delay_timers import Timers, TunedTimers
from dally.policies.ordering.base import Order
from dally.policies.ordering.simple import LeastAttained, NetworkSensitivity, SubmitOrder
from dally.policies.paper_dally import PaperDally
from dally.policies.placement.delay import DelayPlacement
from dally.policies.preemption.rules import LEASE
from dally.policies.settings import Settings, numbers

PAPER: Final = "Sharma et al., GPU Cluster Scheduling for Network-Sensitive Deep Learning, arXiv 2401.16492"
ORDERS: Final[dict[str, Callable[[], Order]]] = {
    "network-sensitivity": NetworkSensitivity,
    "las": LeastAttained,
    "fifo": SubmitOrder,
}


def _paper_dally(settings: Settings) -> Policy:
    lease_s = settings["lease_s"]
    if settings["order"] not in ORDERS:
        raise InputError(f"--set order={settings['order']}: must be one of {', '.join(ORDERS)}")
    for name in ("history", "first_cap", "spread"):
        if settings[name] == float("inf"):
            raise InputError(f"--set {name}=inf: must be finite")
    floors = numbers("floors", settings["floors"], "leases by tier, such as 6,12 or 0 or inf")
    timers = Timers(lease_s, floors)
    if settings["tuner"]:
        timers = TunedTimers(lease_s, floors, settings["history"], settings["first_cap"], settings["spread"])
    return PaperDally(ORDERS[settings["order"]](), DelayPlacement(timers), lease_s)


def _variant(name: str, placement: str, tuner: bool, floors: str) -> NamedPolicy:
    params = (
        LEASE,
        Param("order", "network-sensitivity", "network-sensitivity, las or fifo"),
        Param("tuner", tuner, "tune the timers from recent waits"),
        Param("floors", floors, "least timers in leases, by tier above the machine; further tiers double"),
        Param("history", 24.0, "leases for which a wait counts, and the largest timer", 1.0),
        Param("first_cap", 0.8, "share of the history that caps the first tier's timer", 0.0),
        Param("spread", 2.0, "standard deviations above the mean wait", 0.0),
    )
    return NamedPolicy(name, _paper_dally, "network sensitivity", placement, "lease end", NOTHING, PAPER, params)


DALLY_PAPER: Final = _variant("dally-paper", "delay, tuned timers", True, "6,12")
DALLY_PAPER_MANUAL: Final = _variant("dally-paper-manual", "delay, fixed timers", False, "6,12")
DALLY_PAPER_NOWAIT: Final = _variant("dally-paper-nowait", "delay, no timers", False, "0")
DALLY_PAPER_CONSOLIDATED: Final = _variant("dally-paper-consolidated", "closest tier only", False, "inf")
