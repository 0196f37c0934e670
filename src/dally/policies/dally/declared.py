"""The policy's row of `dally policies`: its parameters, and how settings become it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dally.errors import InputError
from dally.policies.base import Param, Policy
from dally.policies.dally.limits import Limits
from dally.policies.dally.policy import Dally
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.ordering.ageing import Ageing
from dally.policies.ordering.gittins import BY, GittinsOrder
from dally.policies.ordering.user_stretch import UserStretch
from dally.policies.prediction.hazard import HazardTable
from dally.policies.prediction.learned import read_table
from dally.policies.settings import Settings

USUAL: Final = Limits()
PLACES: Final = (
    Param("near_price", USUAL.near_price, "highest price of a placement at the closest tier; 1: the fastest", 1.0),
    Param("far_price", USUAL.far_price, "the same for farther tiers", 1.0),
    Param("leftover_near_price", USUAL.leftover_near_price, "the same for the jobs that remain", 1.0),
    Param("leftover_far_price", USUAL.leftover_far_price, "the same for them at farther tiers", 1.0),
    Param(
        "patient_price",
        USUAL.patient_price,
        "highest price once their wait is as long as the slower placement costs",
        1.0,
    ),
    Param("domains", USUAL.domains, "domains of a tier whose price is evaluated, the fullest first", 1.0),
    Param("scatter", USUAL.scatter, "let gangs go farther than their closest tier"),
    Param("inflicted", USUAL.inflicted, "count the slowdown of other jobs in the price of a placement"),
)
STOPS: Final = (
    Param("preemption", USUAL.preemption, "preempt worse-ranked gangs"),
    Param("stick", USUAL.stick, "factor by which a running job's rank is multiplied; 1: no advantage"),
    Param(
        "alike",
        USUAL.alike,
        "no job is preempted for one of its size before durations were observed to differ by this factor",
    ),
    Param("least_hold_s", USUAL.least_hold_s, "seconds for which a job keeps its GPUs"),
    Param("hold", USUAL.hold, "the same, in restarts of the job, at least; with all three 0 no job is protected"),
    Param(
        "wide_hold",
        USUAL.wide_hold,
        "the same for a gang of `finish_share` of the cluster, where such gangs do much work",
    ),
)
MOVES: Final = (
    Param("migration", USUAL.migration, "move running gangs to faster places"),
    Param("least_excess", USUAL.least_excess, "slowdown over the best from which on a gang may move", 1.0),
    Param("least_saving_s", USUAL.least_saving_s, "seconds that a move must save"),
    Param("saving", USUAL.saving, "the same, in restarts of the job, at least"),
    Param("most_moves", USUAL.most_moves, "moves tried per cycle"),
    Param("move_domains", USUAL.move_domains, "domains of a tier whose price is evaluated for a move", 1.0),
    Param("compaction", USUAL.compaction, "move gangs out of the way of others"),
    Param("clear_domains", USUAL.clear_domains, "domains tried, the emptiest first"),
    Param("clear_free", USUAL.clear_free, "share of the gang that must fit into a domain before it is cleared"),
    Param("clear_worth", USUAL.clear_worth, "times its cost in GPU time that a clearing must bring"),
    Param("mixing", USUAL.mixing, "move some and preempt others for one gang"),
)
DRAINS: Final = (
    Param("idle_worth", USUAL.idle_worth, "idle GPU-seconds that pay for one taken from others; inf: no drains"),
    Param("idle_power", USUAL.idle_power, "a gang pays (GPUs of the cluster ÷ its own) to this power more"),
    Param(
        "quantum", USUAL.quantum, "a gang keeps a drained domain until others have waited this many of its restarts"
    ),
    Param("quantum_s", USUAL.quantum_s, "seconds added to each of these restarts"),
    Param(
        "finish_gain",
        USUAL.finish_gain,
        "a wide gang takes its domain if its finish is this many times as likely as its losers'; inf: never",
        1.0,
    ),
    Param(
        "finish_share", USUAL.finish_share, "share of the cluster from which on a gang is wide; above 1: none is"
    ),
)
PROBES: Final = (
    Param(
        "probe_stretch",
        USUAL.probe_stretch,
        "a young job is due for a probe after waiting this many times as long as it has worked",
    ),
    Param("probe_least_s", USUAL.probe_least_s, "the least seconds of work that this counts"),
    Param("probe_s", USUAL.probe_s, "seconds of work after which a job is no longer young, and its probe ends"),
    Param("probe_odds", USUAL.probe_odds, "share of such jobs that must have ended within their probe"),
    Param(
        "probe_again_s",
        USUAL.probe_again_s,
        "seconds after which a job without room for its probe is tried again",
        1.0,
    ),
    Param(
        "probe_share",
        USUAL.probe_share,
        "share of the GPUs that such jobs hold at most, unless it is one; 0: no probes",
    ),
)
SIZES: Final = (
    Param(
        "elastic", USUAL.elastic, "start elastic jobs smaller, shrink them before others are preempted, grow them"
    ),
    Param("dearest", USUAL.dearest, "GPU time per work of a start's last step above the size a job asks for", 1.0),
    Param("idle_reserve", USUAL.idle_reserve, "share of the GPUs that no job grows into"),
    Param("quiet_s", USUAL.quiet_s, "seconds without a new job after which jobs grow into these GPUs too"),
    Param(
        "smaller_stick", USUAL.smaller_stick, "a job that could start smaller counts as ranked so much worse", 0.01
    ),
    Param("loan_s", USUAL.loan_s, "seconds for which a larger size counts at most while jobs wait"),
)
SAFETY: Final = (
    Param(
        "most_slowdown", USUAL.most_slowdown, "slowdown of all running jobs above which no job is scattered", 1.0
    ),
    Param("churn", USUAL.churn, "share of GPU time that moves and preemptions may cost"),
    Param("churn_window_s", USUAL.churn_window_s, "seconds over which that share is counted", 1.0),
    Param("moves_per_h", USUAL.moves_per_h, "moves of one job in an hour at most"),
    Param("patience_s", USUAL.patience_s, "seconds that a job waits before it is served first; inf: for ever"),
    Param("patience", USUAL.patience, "added to that, as a multiple of its running time"),
    Param("stretch_s", USUAL.stretch_s, "seconds for which a job served first keeps its GPUs"),
    Param("reserved", USUAL.reserved, "share of the GPUs that jobs served first hold at most, unless it is one"),
    Param(
        "alike_times",
        USUAL.alike_times,
        "jobs take about equally long if 99 % take less than this many times as long as half of them; 0: never",
    ),
    Param(
        "alike_patience",
        USUAL.alike_patience,
        "times as long as the longest takes that a job then waits before it is served first",
    ),
    Param("alike_reserved", USUAL.alike_reserved, "`reserved`, then"),
    Param("most_candidates", USUAL.most_candidates, "running jobs considered for one gang, the worst-ranked"),
    Param("most_domains", USUAL.most_domains, "domains whose clearing is tried for one gang, at most", 1.0),
    Param("most_prices", USUAL.most_prices, "prices and jobs evaluated in one cycle, at most"),
    Param("wake_s", USUAL.wake_s, "seconds between two cycles while jobs wait", 1.0),
)
LIMITS: Final = (*PLACES, *STOPS, *MOVES, *DRAINS, *PROBES, *SIZES, *SAFETY)
# By objective, what takes the place of usual values. For the slowdown, finishes of short jobs count more.
# For the makespan wide gangs must not be left for the end: a job that has waited for six hours is served first.
OBJECTIVES: Final[dict[str, dict[str, float]]] = {
    "jct": {},
    "slowdown": {"length_power": -0.5},
    "p99": {"gpu_power": 0.8, "length_power": 0.25},
    "makespan": {"patience_s": 21600.0, "patience": 0.0, "stretch_s": 21600.0, "reserved": 0.7},
    "fair": {"user_power": 1.0},
}
LEARNING: Final = (
    Param(
        "objective",
        "jct",
        "what counts: jct, slowdown, p99, makespan or fair; changes only what is not set otherwise",
    ),
    Param("order", "gittins", "what ranks follow: gittins, or las (GPU time so far)"),
    Param("weight", 8.0, "jobs that the wider class counts for in a narrower one"),
    Param("forget", 0.03, "share of what a user's class forgets with each finish"),
    Param("by_user", True, "learn for each user apart"),
    Param(
        "length_power",
        0.0,
        "a finish counts as the job's length to this power: -1 for the slowdown, 0 for the mean",
        -2.0,
    ),
    Param("gpu_power", 1.0, "a rank grows with the GPUs to this power; below 1 wide gangs come earlier"),
    Param("user_power", 0.0, "a rank falls as its user's jobs take longer than they run, to this power"),
    Param(
        "age_power",
        0.0,
        "a rank falls as a job takes longer than it works, to this power, where wide gangs do much work; 0: no",
    ),
    Param("age_stretch", 2.0, "time in the system ÷ work from which on it does"),
    Param("age_least_s", 10800.0, "the least seconds of work that this counts"),
    Param("age_share", 0.25, "share of the work that gangs of `finish_share` of the cluster must do for that"),
    Param("prior", 0.15, "share of jobs that end in their first 30 s, before anything is known"),
    Param("horizon", 0.5, "share of the job's age that the horizon of a rank covers, at least"),
    Param("least_horizon_s", 600.0, "the same, in seconds, at least"),
    Param("learned", "", "a file of `dally learn` to begin with"),
    Param("refresh_s", 600.0, "seconds after which all ranks are worked out again", 1.0),
)


def _dally(settings: Settings) -> Policy:
    settings = for_objective(settings)
    for name in ("forget", "prior", "reserved"):
        if settings[name] > 1.0:
            raise InputError(f"--set {name}={settings[name]:g}: must be a share from 0 to 1")
    if settings["weight"] <= 0.0:
        raise InputError(f"--set weight={settings['weight']:g}: must be more than 0")
    table = HazardTable(
        settings["weight"],
        settings["forget"],
        settings["prior"],
        settings["horizon"],
        settings["least_horizon_s"],
        settings["by_user"],
        settings["length_power"],
    )
    if settings["learned"]:
        table.restore(read_table(Path(settings["learned"]), table))
    if settings["order"] not in BY:
        raise InputError(f"--set order={settings['order']}: must be one of {', '.join(BY)}")
    users = UserStretch(settings["user_power"]) if settings["user_power"] > 0.0 else None
    ages: Ageing | None = None
    if settings["age_power"] > 0.0:
        ages = Ageing(
            settings["age_power"], settings["age_stretch"], settings["age_least_s"], settings["age_share"]
        )
    order = GittinsOrder(table, settings["refresh_s"], BY[settings["order"]], settings["gpu_power"], users, ages)
    order.alike_times = settings["alike_times"]
    return Dally(order, Limits(**{param.name: settings[param.name] for param in LIMITS}))


def for_objective(settings: Settings) -> Settings:
    """The settings; those that are as usual become what the objective wants."""
    objective = settings["objective"]
    if objective not in OBJECTIVES:
        raise InputError(f"--set objective={objective}: must be one of {', '.join(OBJECTIVES)}")
    usual = {param.name: param.default for param in (*LIMITS, *LEARNING)}
    changes = {name: value for name, value in OBJECTIVES[objective].items() if settings[name] == usual[name]}
    return {**settings, **changes}


DALLY: Final = NamedPolicy(
    "dally", _dally, "Gittins rank of learnt hazards", "closest tier, or almost free of charge",
    "every event; migration", NOTHING, "ours", (*LIMITS, *LEARNING), files=("learned",),
)  # fmt: skip
