"""Many runs side by side: means over seeds, who is best, against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from dally.errors import unknown

NOISE = 0.03  # differences below that say nothing: see the benchmark's rules
TIE = 0.005  # closer than that to the best is as good
USUAL_BASELINES = ("fifo-backfill", "fifo", "easy-backfill")


@dataclass(frozen=True)
class Metric:
    """A figure of a run: where it is found, what to call it, how to print it, which way is better."""

    key: str
    title: str
    unit: str  # span, share or count
    lower_is_better: bool | None = True  # None: neither is, by itself
    bound: str = ""  # key of its lower bound


METRICS = (
    Metric("jct_mean_s", "mean JCT", "span", bound="jct_bound_s"),
    Metric("jct_p50_s", "median JCT", "span"),
    Metric("jct_p99_s", "p99 JCT", "span"),
    Metric("queue_mean_s", "mean wait", "span"),
    Metric("lost_to_network", "lost to network", "share"),
    Metric("makespan_s", "makespan", "span", bound="makespan_bound_s"),
    Metric("utilization", "GPUs held", "share", lower_is_better=None),
    Metric("goodput", "GPUs computing", "share", lower_is_better=False),
    Metric("fragmentation_mean", "fragmentation", "share"),
    Metric("preemptions", "preemptions", "count"),
)


@dataclass(frozen=True)
class Entry:
    """One policy with its settings: the mean of every figure over its runs, and how far they spread."""

    label: str
    runs: int
    means: dict[str, float]
    spreads: dict[str, float]  # standard deviation over the runs, 0 of a single one

    def over_bound(self, metric: Metric) -> float | None:
        """How many times its lower bound the figure is, or None."""
        bound = self.means.get(metric.bound, 0.0)
        return self.means[metric.key] / bound if bound > 0.0 and metric.key in self.means else None


def lost_to_network(row: dict[str, Any]) -> float:
    """The share of the GPU time at work that went into exposed communication."""
    spent = (row.get("comm_gpu_s") or 0.0) + (row.get("compute_gpu_s") or 0.0)
    return float(row["comm_gpu_s"]) / spent if spent else 0.0


def label_of(row: dict[str, Any]) -> str:
    """The policy, with its settings if it has any."""
    settings = row.get("settings")
    if isinstance(settings, dict):
        settings = ",".join(f"{name}={value}" for name, value in settings.items() if value is not None)
    return f"{row['policy']} {settings}" if settings and settings != "{}" else str(row["policy"])


def entries(rows: Sequence[dict[str, Any]]) -> list[Entry]:
    """One entry per label, in the order in which they first appear; runs without figures do not count."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("jct_mean_s") is not None:
            grouped.setdefault(label_of(row), []).append({**row, "lost_to_network": lost_to_network(row)})
    keys = sorted({metric.key for metric in METRICS} | {metric.bound for metric in METRICS if metric.bound})
    found = []
    for label, runs in grouped.items():
        values = {key: [float(run[key]) for run in runs if run.get(key) is not None] for key in keys}
        found.append(
            Entry(
                label,
                len(runs),
                {key: mean(seen) for key, seen in values.items() if seen},
                {key: stdev(seen) if len(seen) > 1 else 0.0 for key, seen in values.items() if seen},
            )
        )
    return found


def best_labels(found: Sequence[Entry], metric: Metric) -> list[str]:
    """Who has the best value of that figure, or as good as that; nobody if all do."""
    values = {entry.label: entry.means[metric.key] for entry in found if metric.key in entry.means}
    if not values or metric.lower_is_better is None:
        return []
    best = min(values.values()) if metric.lower_is_better else max(values.values())
    found_best = [label for label, value in values.items() if abs(value - best) <= TIE * abs(best)]
    return found_best if len(found_best) < len(values) else []


def choose_baseline(labels: Sequence[str], wanted: str = "") -> str:
    """The label to compare with: the wanted one, else the usual ones, else the first."""
    if wanted:
        if wanted not in labels:
            raise unknown("baseline", wanted, labels)
        return wanted
    return next((name for name in USUAL_BASELINES if name in labels), labels[0])


def change(value: float, base: float) -> float | None:
    """By what share the value differs from the base; None if that cannot be said."""
    return value / base - 1.0 if base else None
