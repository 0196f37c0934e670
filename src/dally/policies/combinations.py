"""The policies that are nothing but an order, a placement and a rule of preemption: one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dally.errors import InputError
from dally.policies.ada_srsf import PAPER as WANG
from dally.policies.base import Param, Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.consolidating import ConsolidatingPolicy
from dally.policies.declaration import BEST_FIT as FIT
from dally.policies.declaration import DURATIONS, NOTHING, NamedPolicy
from dally.policies.ordering.base import Order
from dally.policies.ordering.fairness import FinishTimeFairness
from dally.policies.ordering.remaining import ShortestJob, ShortestRemaining, SmallestRemaining
from dally.policies.ordering.simple import LeastAttained, SubmitOrder
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import BestFit
from dally.policies.placement.closest_tier import TIER, at_tier, holds_closest
from dally.policies.placement.delay import SwitchesPlacement
from dally.policies.placement.least_workload import KAPPA, LeastWorkload
from dally.policies.placement.pods import PodPlacement
from dally.policies.placement.tier_bids import TierBids
from dally.policies.prediction.base import Predictor
from dally.policies.prediction.named import PREDICTOR, make_predictor
from dally.policies.preemption.base import NoPreemption, Preemption
from dally.policies.preemption.rules import LEASE, EventPreemption, LeasePreemption, SlicePreemption
from dally.policies.settings import Settings
from dally.policies.tiresias import PAPER as TIRESIAS


def _never(settings: Settings) -> Preemption:
    return NoPreemption()


def _leased(settings: Settings) -> Preemption:
    return LeasePreemption(settings["lease_s"])


def _any_event(settings: Settings) -> Preemption:
    return EventPreemption()


def _put_together(
    order: Order, placement: Placement, preemption: Preemption, tier: str, head_blocks: bool = False
) -> Policy:
    """The parts as a policy; one that preempts for gangs that insist on a tier must empty a domain of it."""
    held = at_tier(placement, tier)
    if holds_closest(tier) and not isinstance(preemption, NoPreemption):
        return ConsolidatingPolicy(order, held, preemption)
    return ComposedPolicy(order, held, preemption, head_blocks)


def _composed(
    order: Callable[[], Order], preemption: Callable[[Settings], Preemption] = _never, head_blocks: bool = False
) -> Callable[[Settings], Policy]:
    return lambda settings: _put_together(order(), BestFit(), preemption(settings), settings["tier"], head_blocks)


def _predicted(
    order: Callable[[Predictor], Order], preemption: Callable[[Settings], Preemption] = _never
) -> Callable[[Settings], Policy]:
    return lambda settings: _put_together(
        order(make_predictor(settings["predictor"])), BestFit(), preemption(settings), settings["tier"]
    )


def _placed(placement: Callable[[Settings], Placement]) -> Callable[[Settings], Policy]:
    """First come, first served with backfill, on that placement."""
    return lambda settings: ComposedPolicy(SubmitOrder(), placement(settings), NoPreemption())


def _pods(required: bool) -> Callable[[Settings], Placement]:
    return lambda settings: PodPlacement(settings["tier"], required)


def _switches(settings: Settings) -> Placement:
    return SwitchesPlacement(settings["max_wait_s"])


def _lwf(settings: Settings) -> Policy:
    return _put_together(SmallestRemaining(), LeastWorkload(settings["kappa"]), NoPreemption(), settings["tier"])


def _themis(settings: Settings) -> Policy:
    if settings["fairness"] > 1.0:
        raise InputError(f"--set fairness={settings['fairness']:g}: must be a share from 0 to 1")
    order = FinishTimeFairness(settings["lease_s"], settings["fairness"])
    placement = at_tier(TierBids(settings["lease_s"]), settings["tier"])
    return ConsolidatingPolicy(order, placement, SlicePreemption(settings["lease_s"]))


TEXTBOOK: Final = "textbook"
SCHRAGE: Final = "Schrage, A Proof of the Optimality of SRPT, Operations Research 1968"
MAHAJAN: Final = "Mahajan et al., Themis, NSDI 2020"
SLURM: Final = "Slurm, sbatch --switches"
KUEUE: Final = "Kueue, topology-aware scheduling"

REQUESTED_TIER: Final = Param("tier", 1, "the tier asked for by gangs larger than a machine: 1 is the rack")
MAX_WAIT: Final = Param(
    "max_wait_s", 300.0, "seconds to wait for one leaf switch when there are GPUs under several"
)
FAIRNESS: Final = Param("fairness", 0.8, "share of the jobs, the best off, that are offered GPUs last")

# fmt: off
FIFO: Final = NamedPolicy("fifo", _composed(SubmitOrder, head_blocks=True), "submit time, head blocks", FIT, "never", NOTHING, TEXTBOOK, (TIER,))
FIFO_BACKFILL: Final = NamedPolicy("fifo-backfill", _composed(SubmitOrder), "submit time", FIT, "never", NOTHING, TEXTBOOK, (TIER,))
SJF: Final = NamedPolicy("sjf", _predicted(ShortestJob), "duration", FIT, "never", DURATIONS, TEXTBOOK, (PREDICTOR, TIER))
SRTF: Final = NamedPolicy("srtf", _predicted(ShortestRemaining, _any_event), "remaining time", FIT, "every event", DURATIONS, SCHRAGE, (PREDICTOR, TIER))
SRSF: Final = NamedPolicy("srsf", _predicted(SmallestRemaining, _any_event), "remaining GPU-time", FIT, "every event", DURATIONS, TIRESIAS, (PREDICTOR, TIER))
LAS: Final = NamedPolicy("las", _composed(LeastAttained, _leased), "attained GPU-time", FIT, "lease end", NOTHING, TIRESIAS, (LEASE, TIER))
THEMIS: Final = NamedPolicy("themis", _themis, "finish-time fairness", "best fit, bids by tier", "lease end", DURATIONS, MAHAJAN, (LEASE._replace(default=1200.0), FAIRNESS, TIER))
SLURM_SWITCHES: Final = NamedPolicy("slurm-switches", _placed(_switches), "submit time", "one machine, or one leaf switch for a while", "never", NOTHING, SLURM, (MAX_WAIT,))
KUEUE_PREFERRED: Final = NamedPolicy("kueue-preferred", _placed(_pods(False)), "submit time", "requested tier, else above", "never", NOTHING, KUEUE, (REQUESTED_TIER,))
KUEUE_REQUIRED: Final = NamedPolicy("kueue-required", _placed(_pods(True)), "submit time", "requested tier only", "never", NOTHING, KUEUE, (REQUESTED_TIER,))
LWF: Final = NamedPolicy("lwf", _lwf, "remaining GPU-time", "least loaded machines (LWF-κ)", "never", DURATIONS, WANG, (KAPPA, TIER))
# fmt: on
