"""The named policies, one line each, and how a name with settings becomes a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from dally.errors import InputError, unknown
from dally.policies.a_srpt import AdaptiveSrpt
from dally.policies.backfill import EasyBackfill
from dally.policies.base import Param, Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.dally import DallyPolicy
from dally.policies.ordering.base import Order
from dally.policies.ordering.network import NetworkSensitivity
from dally.policies.ordering.oracle import ShortestJob, ShortestRemaining, SmallestRemaining
from dally.policies.ordering.service import LeastAttained
from dally.policies.ordering.submit import SubmitOrder
from dally.policies.placement.best_fit import BestFit
from dally.policies.placement.delay import DelayPlacement
from dally.policies.placement.heavy_edge import HeavyEdge
from dally.policies.prediction.base import Predictor
from dally.policies.prediction.named import make_predictor
from dally.policies.preemption.base import NoPreemption, Preemption
from dally.policies.preemption.event import EventPreemption
from dally.policies.preemption.lease import LeasePreemption
from dally.policies.tuning import Timers, TunedTimers

Settings = Mapping[str, Any]

LEASE = Param("lease_s", 3600.0, "seconds for which GPUs are granted", 1e-3)

PREDICTOR = Param("predictor", "oracle", "what foresees durations: oracle, none, history or forest")


class NamedPolicy(NamedTuple):
    """A row of `dally policies`."""

    build: Callable[[Settings], Policy]
    order: str
    placement: str
    preemption: str
    paper: str
    params: tuple[Param, ...] = ()


def _never(settings: Settings) -> Preemption:
    return NoPreemption()


def _leased(settings: Settings) -> Preemption:
    return LeasePreemption(settings["lease_s"])


def _any_event(settings: Settings) -> Preemption:
    return EventPreemption()


def _composed(
    order: Callable[[], Order], preemption: Callable[[Settings], Preemption] = _never, head_blocks: bool = False
) -> Callable[[Settings], Policy]:
    return lambda settings: ComposedPolicy(order(), BestFit(), preemption(settings), head_blocks)


def _predicted(
    order: Callable[[Predictor], Order], preemption: Callable[[Settings], Preemption] = _never
) -> Callable[[Settings], Policy]:
    return lambda settings: ComposedPolicy(
        order(make_predictor(settings["predictor"])), BestFit(), preemption(settings)
    )


def _a_srpt(settings: Settings) -> Policy:
    return AdaptiveSrpt(make_predictor(settings["predictor"]), HeavyEdge(), settings["early"])


ORDERS: dict[str, Callable[[], Order]] = {
    "network-sensitivity": NetworkSensitivity,
    "las": LeastAttained,
    "fifo": SubmitOrder,
}


def _dally(settings: Settings) -> Policy:
    lease_s = settings["lease_s"]
    if settings["order"] not in ORDERS:
        raise InputError(f"--set order={settings['order']}: must be one of {', '.join(ORDERS)}")
    for name in ("history", "first_cap", "spread"):
        if settings[name] == float("inf"):
            raise InputError(f"--set {name}=inf: must be finite")
    floors = _leases(settings["floors"])
    timers = Timers(lease_s, floors)
    if settings["tuner"]:
        timers = TunedTimers(lease_s, floors, settings["history"], settings["first_cap"], settings["spread"])
    return DallyPolicy(ORDERS[settings["order"]](), DelayPlacement(timers), lease_s)


def _leases(text: str) -> list[float]:
    """Timers in leases by tier, e.g. 6,12 or inf."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(value >= 0.0 for value in found):
        raise InputError(f"--set floors={text}: must be leases by tier, such as 6,12 or 0 or inf")
    return found


def _dally_params(tuner: bool, floors: str) -> tuple[Param, ...]:
    return (
        LEASE,
        Param("order", "network-sensitivity", "network-sensitivity, las or fifo"),
        Param("tuner", tuner, "tune the timers from recent waits"),
        Param("floors", floors, "least timers in leases, by tier above the machine; further tiers double"),
        Param("history", 24.0, "leases for which a wait counts, and the largest timer", 1.0),
        Param("first_cap", 0.8, "share of the history that caps the first tier's timer", 0.0),
        Param("spread", 2.0, "standard deviations above the mean wait", 0.0),
    )


def _a_srpt_params() -> tuple[Param, ...]:
    return (
        PREDICTOR._replace(default="forest"),
        Param("early", False, "idle GPUs go to jobs that the virtual machine has not finished"),
    )


def _easy(settings: Settings) -> Policy:
    return EasyBackfill(BestFit(), make_predictor(settings["predictor"]))


FEITELSON = "Feitelson & Weil, Utilization and Predictability in Scheduling the IBM SP2, IPPS 1998"
TIRESIAS = "Gu et al., Tiresias, NSDI 2019"
SCHRAGE = "Schrage, A Proof of the Optimality of SRPT, Operations Research 1968"
A_SRPT = "Luo et al., Prediction-Assisted Online Distributed Deep Learning Workload Scheduling, arXiv 2501.05563"
TEXTBOOK = "textbook"
DALLY = "Sharma et al., GPU Cluster Scheduling for Network-Sensitive Deep Learning, arXiv 2401.16492"

POLICIES: dict[str, NamedPolicy] = {
    "fifo": NamedPolicy(_composed(SubmitOrder, head_blocks=True), "submit time, head blocks", "best fit", "never", TEXTBOOK),
    "fifo-backfill": NamedPolicy(_composed(SubmitOrder), "submit time", "best fit", "never", TEXTBOOK),
    "easy-backfill": NamedPolicy(_easy, "submit time, head reserved", "best fit", "never", FEITELSON, (PREDICTOR,)),
    "sjf": NamedPolicy(_predicted(ShortestJob), "duration (oracle)", "best fit", "never", TEXTBOOK, (PREDICTOR,)),
    "srtf": NamedPolicy(_predicted(ShortestRemaining, _any_event), "remaining time (oracle)", "best fit", "every event", SCHRAGE, (PREDICTOR,)),
    "srsf": NamedPolicy(_predicted(SmallestRemaining, _any_event), "remaining GPU-time (oracle)", "best fit", "every event", TIRESIAS, (PREDICTOR,)),
    "las": NamedPolicy(_composed(LeastAttained, _leased), "attained GPU-time", "best fit", "lease end", TIRESIAS, (LEASE,)),
    "a-srpt": NamedPolicy(_a_srpt, "a virtual machine's SRPT (predicted)", "fewest machines", "never", A_SRPT, _a_srpt_params()),
    "dally": NamedPolicy(_dally, "network sensitivity", "delay, tuned timers", "lease end", DALLY, _dally_params(True, "6,12")),
    "dally-manual": NamedPolicy(_dally, "network sensitivity", "delay, fixed timers", "lease end", DALLY, _dally_params(False, "6,12")),
    "dally-nowait": NamedPolicy(_dally, "network sensitivity", "delay, no timers", "lease end", DALLY, _dally_params(False, "0")),
    "dally-consolidated": NamedPolicy(_dally, "network sensitivity", "closest tier only", "lease end", DALLY, _dally_params(False, "inf")),
}  # fmt: skip


def find(name: str) -> NamedPolicy:
    """The named policy, or an InputError that suggests the nearest name."""
    if name in POLICIES:
        return POLICIES[name]
    raise unknown("policy", name, POLICIES)


def build(name: str, given: Mapping[str, str] | None = None) -> Policy:
    """A new policy of that name with these settings, as `--set` gives them."""
    named = find(name)
    return named.build(settings_for(name, named.params, given or {}))


def settings_for(policy: str, params: tuple[Param, ...], given: Mapping[str, str]) -> dict[str, Any]:
    """Every parameter's value: as given, checked and converted, else its default."""
    values: dict[str, Any] = {param.name: param.default for param in params}
    known = {param.name: param for param in params}
    for key, text in given.items():
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known) or 'none'}"
            raise InputError(f"--set {key}={text}: policy {policy!r} has no parameter {key!r}; {hint}")
        values[key] = _convert(known[key], text)
    return values


SWITCH = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}


def _convert(param: Param, text: str) -> float | int | str | bool:
    wanted = type(param.default)
    try:
        if wanted is bool:
            return SWITCH[text.lower()]
        value = wanted(text)
    except (KeyError, ValueError):
        names = {bool: "on or off", int: "a whole number", float: "a number"}
        raise InputError(f"--set {param.name}={text}: must be {names[wanted]}") from None
    if isinstance(value, (int, float)) and not value >= param.least:  # also refuses NaN
        raise InputError(f"--set {param.name}={text}: must be at least {param.least:g}")
    return value
