"""The figures by which runs are compared: what each is called, its unit, which way is better, what bounds it."""

from __future__ import annotations

from dataclasses import dataclass

SPAN, SHARE, COUNT, NUMBER = "span", "share", "count", "number"


@dataclass(frozen=True)
class Metric:
    """A figure of a run: its column, what to call it, how to print it, which way is better."""

    key: str
    title: str
    unit: str = SPAN  # seconds; or SHARE, COUNT, NUMBER
    lower_is_better: bool | None = True  # None: neither is, by itself
    bound: str = ""  # the column of its lower bound
    short: str = ""  # a title where there is little room

    def short_title(self) -> str:
        """The title where there is little room."""
        return self.short or self.title


MAKESPAN = Metric("makespan_s", "makespan", bound="makespan_bound_s")
JCT_MEAN = Metric("jct_mean_s", "mean JCT", bound="jct_bound_s")
JCT_P50 = Metric("jct_p50_s", "p50 JCT")
JCT_P99 = Metric("jct_p99_s", "p99 JCT")
WAIT_MEAN = Metric("queue_mean_s", "mean wait")
COMM = Metric("comm_s", "exposed communication", bound="comm_floor_s", short="exposed comm.")
LOST_TO_NETWORK = Metric("lost_to_network", "lost to network", SHARE)
PREEMPTIONS = Metric("preemptions", "preemptions", COUNT)
MIGRATIONS = Metric("migrations", "migrations", COUNT)
CPU = Metric("cpu_s", "CPU of the run, s", NUMBER)
BY_SIZE = (
    Metric("jct_1_gpu_s", "mean JCT of 1-GPU jobs"),
    Metric("jct_2_to_8_gpus_s", "mean JCT of 2-8-GPU jobs"),
    Metric("jct_over_8_gpus_s", "mean JCT of larger jobs"),
)
METRICS = (
    JCT_MEAN, JCT_P50, Metric("jct_p95_s", "p95 JCT"), JCT_P99, *BY_SIZE,
    WAIT_MEAN, Metric("queue_p99_s", "p99 wait"),
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
BRIEF = (JCT_MEAN, JCT_P50, JCT_P99, WAIT_MEAN, COMM, MAKESPAN, PREEMPTIONS)
_ON_PAGE = (
    "jct_mean_s", "jct_p50_s", "jct_p99_s", "queue_mean_s", "comm_s", "lost_to_network", "makespan_s",
    "utilization", "goodput", "fragmentation_mean", "preemptions",
)  # fmt: skip
ON_PAGE = tuple(metric for metric in METRICS if metric.key in _ON_PAGE)
