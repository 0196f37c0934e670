"""The named policies, one line each, and how a name with settings becomes a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, NamedTuple

from dally.errors import InputError, unknown
from dally.policies.a_srpt import AdaptiveSrpt
from dally.policies.ada_srsf import AdaSrsf
from dally.policies.backfill import EasyBackfill
from dally.policies.base import Param, Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.consolidating import ConsolidatingPolicy
from dally.policies.dally import DallyPolicy
from dally.policies.gandiva import GandivaPolicy
from dally.policies.gavel import GavelPolicy
from dally.policies.ordering.base import Order
from dally.policies.ordering.discrete_las import DiscreteLas, GittinsLas
from dally.policies.ordering.fairness import FinishTimeFairness
from dally.policies.ordering.network_sensitivity import NetworkSensitivity
from dally.policies.ordering.remaining import ShortestJob, ShortestRemaining, SmallestRemaining
from dally.policies.ordering.round_robin import RoundRobin
from dally.policies.ordering.service import LeastAttained
from dally.policies.ordering.submit import SubmitOrder
from dally.policies.placement.affinity import AffinityPlacement
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import BestFit
from dally.policies.placement.delay import DelayPlacement
from dally.policies.placement.heavy_edge import HeavyEdge
from dally.policies.placement.least_workload import LeastWorkload
from dally.policies.placement.pods import PodPlacement
from dally.policies.placement.skew import SkewPlacement
from dally.policies.placement.switches import SwitchesPlacement
from dally.policies.prediction.base import Predictor
from dally.policies.prediction.named import make_predictor
from dally.policies.preemption.base import NoPreemption, Preemption
from dally.policies.preemption.event import EventPreemption
from dally.policies.preemption.lease import LeasePreemption
from dally.policies.preemption.slices import SlicePreemption
from dally.policies.tuning import Timers, TunedTimers

Settings = Mapping[str, Any]

LEASE = Param("lease_s", 3600.0, "seconds for which GPUs are granted", 1e-3)
KAPPA = Param("kappa", 1, "gangs of at most so many GPUs are spread, larger ones go machine by machine")

PREDICTOR = Param("predictor", "oracle", "what foresees durations: oracle, none, history or forest")


class NamedPolicy(NamedTuple):
    """A row of `dally policies`."""

    build: Callable[[Settings], Policy]
    order: str
    placement: str
    preemption: str
    needs: str
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
    floors = _numbers("floors", settings["floors"], "leases by tier, such as 6,12 or 0 or inf")
    timers = Timers(lease_s, floors)
    if settings["tuner"]:
        timers = TunedTimers(lease_s, floors, settings["history"], settings["first_cap"], settings["spread"])
    return DallyPolicy(ORDERS[settings["order"]](), DelayPlacement(timers), lease_s)


def _next(settings: Settings) -> Policy:
    from dally.policies.ordering.gittins import GittinsOrder
    from dally.policies.prediction.hazard import HazardTable
    from dally.policies.priced.limits import Limits
    from dally.policies.priced.policy import PricedPolicy

    return PricedPolicy(GittinsOrder(HazardTable()), Limits())


def _numbers(name: str, text: str, meaning: str) -> list[float]:
    """Numbers separated by commas, none negative."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(value >= 0.0 for value in found):
        raise InputError(f"--set {name}={text}: must be {meaning}")
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


def _lwf(settings: Settings) -> Policy:
    return ComposedPolicy(SmallestRemaining(), LeastWorkload(settings["kappa"]), NoPreemption())


def _ada_srsf(settings: Settings) -> Policy:
    return AdaSrsf(SmallestRemaining(), LeastWorkload(settings["kappa"]), NoPreemption())


def _a_srpt_params() -> tuple[Param, ...]:
    return (
        PREDICTOR._replace(default="forest"),
        Param("early", False, "idle GPUs go to jobs that the virtual machine has not finished"),
    )


def _easy(settings: Settings) -> Policy:
    return EasyBackfill(BestFit(), make_predictor(settings["predictor"]))


def _tiresias(order: Callable[[list[float], Settings], Order]) -> Callable[[Settings], Policy]:
    def make(settings: Settings) -> Policy:
        limits = _numbers("limits", settings["limits"], "GPU-seconds in rising order, such as 3250,7200,18000")
        if sorted(set(limits)) != limits or not 0.0 < limits[0] <= limits[-1] < float("inf"):
            raise InputError(f"--set limits={settings['limits']}: must rise from above 0, and be finite")
        ranks = order(limits, settings)
        if settings["skew"] > 1.0:
            return ComposedPolicy(ranks, BestFit(), EventPreemption())
        return ConsolidatingPolicy(ranks, SkewPlacement(settings["skew"]), EventPreemption())

    return make


def _queues(limits: list[float], settings: Settings) -> Order:
    return DiscreteLas(limits, settings["promote"])


def _gittins(limits: list[float], settings: Settings) -> Order:
    return GittinsLas(limits, settings["promote"], settings["learn_from"])


TIRESIAS_PARAMS = (
    Param("limits", "3250,7200,18000", "GPU-seconds at which a job falls to the next queue"),
    Param(
        "promote", 8.0, "a job that waited so many times as long as it ran returns to the first queue; inf: never"
    ),
    Param("skew", 0.5, "largest tensor ÷ model from which on gangs stay together; above 1: none do"),
)


def _gandiva(settings: Settings) -> Policy:
    return GandivaPolicy(RoundRobin(), AffinityPlacement(), SlicePreemption(settings["slice_s"]))


def _themis(settings: Settings) -> Policy:
    if settings["fairness"] > 1.0:
        raise InputError(f"--set fairness={settings['fairness']:g}: must be a share from 0 to 1")
    order = FinishTimeFairness(settings["lease_s"], settings["fairness"])
    return ConsolidatingPolicy(order, BestFit(), SlicePreemption(settings["lease_s"]))


def _gavel(settings: Settings) -> Policy:
    if find_spec("scipy") is None:
        raise InputError("policy 'gavel' needs scipy; install the extra dally[policies]")
    return GavelPolicy(BestFit(), settings["round_s"])


def _placed(placement: Callable[[Settings], Placement]) -> Callable[[Settings], Policy]:
    """First come, first served with backfill, on that placement."""
    return lambda settings: ComposedPolicy(SubmitOrder(), placement(settings), NoPreemption())


def _pods(required: bool) -> Callable[[Settings], Placement]:
    return lambda settings: PodPlacement(settings["tier"], required)


POD_PARAMS = (Param("tier", 1, "the tier asked for by gangs larger than a machine: 1 is the rack"),)


FEITELSON = "Feitelson & Weil, Utilization and Predictability in Scheduling the IBM SP2, IPPS 1998"
TIRESIAS = "Gu et al., Tiresias, NSDI 2019"
SCHRAGE = "Schrage, A Proof of the Optimality of SRPT, Operations Research 1968"
A_SRPT = "Luo et al., Prediction-Assisted Online Distributed Deep Learning Workload Scheduling, arXiv 2501.05563"
TEXTBOOK = "textbook"
GANDIVA = "Xiao et al., Gandiva, OSDI 2018"
THEMIS = "Mahajan et al., Themis, NSDI 2020"
GAVEL = "Narayanan et al., Gavel, OSDI 2020"
SLURM = "Slurm, sbatch --switches"
KUEUE = "Kueue, topology-aware scheduling"
DALLY = "Sharma et al., GPU Cluster Scheduling for Network-Sensitive Deep Learning, arXiv 2401.16492"
WANG = "Wang et al., Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs, arXiv 2002.10105"

ANY, FIT = "nothing", "best fit"
KNOWN = "durations"

POLICIES: dict[str, NamedPolicy] = {
    "fifo": NamedPolicy(_composed(SubmitOrder, head_blocks=True), "submit time, head blocks", FIT, "never", ANY, TEXTBOOK),
    "fifo-backfill": NamedPolicy(_composed(SubmitOrder), "submit time", FIT, "never", ANY, TEXTBOOK),
    "easy-backfill": NamedPolicy(_easy, "submit time, head reserved", FIT, "never", KNOWN, FEITELSON, (PREDICTOR,)),
    "sjf": NamedPolicy(_predicted(ShortestJob), "duration", FIT, "never", KNOWN, TEXTBOOK, (PREDICTOR,)),
    "srtf": NamedPolicy(_predicted(ShortestRemaining, _any_event), "remaining time", FIT, "every event", KNOWN, SCHRAGE, (PREDICTOR,)),
    "srsf": NamedPolicy(_predicted(SmallestRemaining, _any_event), "remaining GPU-time", FIT, "every event", KNOWN, TIRESIAS, (PREDICTOR,)),
    "las": NamedPolicy(_composed(LeastAttained, _leased), "attained GPU-time", FIT, "lease end", ANY, TIRESIAS, (LEASE,)),
    "tiresias": NamedPolicy(_tiresias(_queues), "queues by attained GPU-time", "skewed models at their closest tier", "every event", "models", TIRESIAS, TIRESIAS_PARAMS),
    "tiresias-gittins": NamedPolicy(_tiresias(_gittins), "Gittins index of attained GPU-time", "skewed models at their closest tier", "every event", "models", TIRESIAS, (*TIRESIAS_PARAMS, Param("learn_from", 10, "finished jobs from which on indices are used", 1))),
    "gandiva": NamedPolicy(_gandiva, "taking turns", "machines by gang size", "time slices, migration", ANY, GANDIVA, (Param("slice_s", 60.0, "seconds that a turn lasts", 1e-3),)),
    "themis": NamedPolicy(_themis, "finish-time fairness", FIT, "lease end", KNOWN, THEMIS, (Param("lease_s", 1200.0, LEASE.about, 1e-3), Param("fairness", 0.8, "share of the jobs, the best off, that are offered GPUs last"))),
    "gavel": NamedPolicy(_gavel, "time due over time had", FIT, "rounds", ANY, GAVEL, (Param("round_s", 360.0, "seconds that a round lasts", 1e-3),)),
    "slurm-switches": NamedPolicy(_placed(lambda settings: SwitchesPlacement(settings["max_wait_s"])), "submit time", "one leaf switch, for a while", "never", ANY, SLURM, (Param("max_wait_s", 300.0, "seconds to wait for one leaf switch when there are GPUs under several"),)),
    "kueue-preferred": NamedPolicy(_placed(_pods(False)), "submit time", "wanted tier, else above", "never", ANY, KUEUE, POD_PARAMS),
    "kueue-required": NamedPolicy(_placed(_pods(True)), "submit time", "wanted tier only", "never", ANY, KUEUE, POD_PARAMS),
    "lwf": NamedPolicy(_lwf, "remaining GPU-time", "least loaded machines (LWF-κ)", "never", KNOWN, WANG, (KAPPA,)),
    "ada-srsf": NamedPolicy(_ada_srsf, "remaining GPU-time", "least loaded machines (LWF-κ), links by AdaDUAL", "never", KNOWN, WANG, (KAPPA,)),
    "a-srpt": NamedPolicy(_a_srpt, "a virtual machine's SRPT", "fewest machines", "never", "what its predictor does", A_SRPT, _a_srpt_params()),
    "dally": NamedPolicy(_dally, "network sensitivity", "delay, tuned timers", "lease end", ANY, DALLY, _dally_params(True, "6,12")),
    "dally-next": NamedPolicy(_next, "Gittins rank", "closest tier", "every event", ANY, DALLY, ()),
    "dally-manual": NamedPolicy(_dally, "network sensitivity", "delay, fixed timers", "lease end", ANY, DALLY, _dally_params(False, "6,12")),
    "dally-nowait": NamedPolicy(_dally, "network sensitivity", "delay, no timers", "lease end", ANY, DALLY, _dally_params(False, "0")),
    "dally-consolidated": NamedPolicy(_dally, "network sensitivity", "closest tier only", "lease end", ANY, DALLY, _dally_params(False, "inf")),
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
