"""What each of the two policies that lead is better at, in words."""

from __future__ import annotations

from dally.metrics.comparison import Contest, Entry, Standing, within_noise
from dally.metrics.metric_list import (
    BY_SIZE,
    COMM,
    COUNT,
    JCT_MEAN,
    JCT_P50,
    JCT_P99,
    MAKESPAN,
    PREEMPTIONS,
    WAIT_MEAN,
    Metric,
)
from dally.metrics.spread import paired_ratios, spread
from dally.report.html.headline import listed
from dally.report.html.page_tables import best_first, told
from dally.report.time_text import percent

WEIGHED = (JCT_MEAN, JCT_P50, JCT_P99, WAIT_MEAN, *BY_SIZE, COMM, MAKESPAN, PREEMPTIONS)
MOST = 4  # advantages of one that are told: the mean completion time and the largest


def leaders_sentence(contest: Contest) -> str:
    """The two lowest mean completion times of those that finished all jobs; "" if there are not two."""
    able = [entry for entry in best_first(contest) if not entry.unfinished]
    if len(able) < 2:
        return ""
    first, second = able[:2]
    own, other = advantages(first, second), advantages(second, first)
    if not own and not other:
        return f"The two leaders, `{first.label}` and `{second.label}`, differ in nothing beyond noise."
    return (
        f"Of the two leaders, `{first.label}` is better at {listed(own) or 'nothing beyond noise'}; "
        f"`{second.label}` at {listed(other) or 'nothing beyond noise'}."
    )


def advantages(one: Entry, other: Entry) -> list[str]:
    """What the one does better than the other by more than noise, with by how much."""
    found = []
    for metric in WEIGHED:
        own, base = one.standings.get(metric.key), other.standings.get(metric.key)
        if own and base and own.spread.mean < base.spread.mean and not within_noise(own, base):
            found.append((metric is not JCT_MEAN, _share(own, base), _told(metric, own, base)))
    told_of = sorted(found)[:MOST]
    return [one[-1] for one in found if one in told_of]


def _share(own: Standing, base: Standing) -> float:
    """By what share the one's is lower, seed by seed where that can be said; negative."""
    ratio = spread(paired_ratios(own.values, base.values).values())
    return (ratio.mean if ratio else own.spread.mean / base.spread.mean) - 1.0


def _told(metric: Metric, own: Standing, base: Standing) -> str:
    if metric.unit == COUNT:
        return f"{metric.title} ({told(own.spread.mean, COUNT)} instead of {told(base.spread.mean, COUNT)})"
    return f"{metric.title} (−{percent(_share(own, base))})"
