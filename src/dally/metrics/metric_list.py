"""The figures by which runs are compared: what each is called, its unit, which way is better, what bounds it.

And what stands behind the ± of a mean over seeds: the one definition that all tables and pages share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# Three seeds say where figures lay; a standard deviation of three is itself off by half. Every ± is this one: of a
# change against the baseline too, whose runs are each taken over the baseline's mean of the same seed.
MEANING = "half the range over seeds and replications"


class Spread(NamedTuple):
    """The mean, and the least and the most."""

    mean: float
    low: float
    high: float

    def half(self) -> float:
        """What follows ±: half the range."""
        return (self.high - self.low) / 2

    def shown(self, unit: float = 1.0) -> str:
        """The mean in that unit, and ± half the range if these digits show one."""
        mean = self.mean / unit
        whole = unit == 1.0 and all(float(value).is_integer() for value in self)  # a count
        digits = 0 if mean >= 1000 or whole else 1 if mean >= 100 else 2
        half = f"{self.half() / unit:,.{digits}f}"
        return f"{mean:,.{digits}f}" + (f" ±{half}" if half.strip("0.") else "")


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of what is known; None of nothing."""
    known = [float(value) for value in values if value is not None]
    return Spread(sum(known) / len(known), min(known), max(known)) if known else None


def paired_ratios(values: Mapping[Any, float], base: Mapping[Any, float]) -> dict[Any, float]:
    """Each value over the base's of the same seed: seeds that are hard for one are hard for all.

    Empty if a base is 0: nothing is so many times 0, and the mean of the other seeds would hide it.
    """
    shared = [key for key in values if key in base]
    if not all(base[key] for key in shared):
        return {}
    return {key: values[key] / base[key] for key in shared}


SPAN, SHARE, COUNT, NUMBER, RATIO = "span", "share", "count", "number", "ratio"


@dataclass(frozen=True)
class Metric:
    """A figure of a run: its column, what to call it, how to print it, which way is better."""

    key: str
    title: str
    unit: str = SPAN  # seconds; or SHARE, COUNT, NUMBER, RATIO
    lower_is_better: bool | None = True  # None: neither is, by itself
    bound: str = ""  # the column of its lower bound, or of what it is compared with
    divisor: str = "bound"  # what that column is; only a bound is what no scheduler can beat
    short: str = ""  # a title where there is little room

    def short_title(self) -> str:
        """The title where there is little room."""
        return self.short or self.title


MAKESPAN = Metric("makespan_s", "makespan", bound="makespan_bound_s")
JCT_MEAN = Metric("jct_mean_s", "mean JCT", bound="jct_bound_s")
JCT_P50 = Metric("jct_p50_s", "p50 JCT")
JCT_P99 = Metric("jct_p99_s", "p99 JCT")
WAIT_MEAN = Metric("queue_mean_s", "mean wait")
COMM = Metric("comm_s", "exposed communication", bound="comm_floor_s", divisor="alone", short="exposed comm.")
LOST_TO_NETWORK = Metric("lost_to_network", "lost to network", SHARE)
PREEMPTIONS = Metric("preemptions", "preemptions", COUNT)
MIGRATIONS = Metric("migrations", "migrations", COUNT)
SHORT_SLOWDOWN = Metric("short_slowdown_p99", "p99 slowdown of short jobs", RATIO)
USER_SLOWDOWN = Metric("user_slowdown_max", "slowdown of the worst user", RATIO, short="worst user's slowdown")
USER_RHO = Metric("rho_max", "finish-time fairness of the worst user", RATIO, short="worst user's fairness")
CPU = Metric("cpu_s", "CPU of the run, s", NUMBER)
BY_SIZE = (
    Metric("jct_1_gpu_s", "mean JCT of 1-GPU jobs"),
    Metric("jct_2_to_8_gpus_s", "mean JCT of 2-8-GPU jobs"),
    Metric("jct_over_8_gpus_s", "mean JCT of larger jobs"),
)
METRICS = (
    JCT_MEAN, JCT_P50, Metric("jct_p95_s", "p95 JCT"), JCT_P99, *BY_SIZE,
    WAIT_MEAN, Metric("queue_p99_s", "p99 wait"),
    SHORT_SLOWDOWN, USER_SLOWDOWN, USER_RHO,
    COMM, Metric("comm_gpu_s", "GPU time of exposed communication"), LOST_TO_NETWORK,
    MAKESPAN,
    Metric("utilization", "GPUs held", SHARE, lower_is_better=None),
    Metric("goodput", "GPUs computing", SHARE, lower_is_better=False),
    Metric("fragmentation_mean", "fragmentation", SHARE),
    PREEMPTIONS, Metric("renewals", "renewals", COUNT), MIGRATIONS,
    Metric("overhead_gpu_s", "GPU time of restarts"),
    Metric("events", "events", COUNT, lower_is_better=None), CPU,
)  # fmt: skip
REPEATED = tuple(metric for metric in METRICS if metric is not CPU)  # the same when a run is made again
KEYS = tuple(metric.key for metric in METRICS)

# What a page has room for, what fits a terminal or a paper, and what a report shows.
FULL = (MAKESPAN, JCT_MEAN, JCT_P50, JCT_P99, *BY_SIZE, COMM, PREEMPTIONS, MIGRATIONS)
BETWEEN_USERS = (USER_SLOWDOWN, USER_RHO)  # beside FULL, where jobs have users
BRIEF = (JCT_MEAN, JCT_P50, JCT_P99, WAIT_MEAN, COMM, MAKESPAN, PREEMPTIONS)
_ON_PAGE = (
    "jct_mean_s", "jct_p50_s", "jct_p99_s", "queue_mean_s", "user_slowdown_max", "rho_max", "comm_s",
    "lost_to_network", "makespan_s", "utilization", "goodput", "fragmentation_mean", "preemptions",
)  # fmt: skip
ON_PAGE = tuple(metric for metric in METRICS if metric.key in _ON_PAGE)
