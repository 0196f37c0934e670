"""What a run or a comparison amounts to, in words that follow from its figures."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from dally.metrics.comparison import NOISE, Contest, Entry, Standing, within_noise
from dally.metrics.distribution import Parts, finished, mean_parts, slowest
from dally.metrics.metric_list import (
    BY_SIZE,
    COMM,
    COUNT,
    JCT_MEAN,
    JCT_P50,
    JCT_P99,
    LOST_TO_NETWORK,
    MAKESPAN,
    PREEMPTIONS,
    WAIT_MEAN,
    Metric,
    paired_ratios,
    spread,
)
from dally.report.html.page_tables import best_first, text
from dally.report.time_text import brief, percent

REASONS = {
    "waiting": ("less waiting", "more waiting"),
    "communication": ("less exposed communication", "more exposed communication"),
    "restarts": ("fewer seconds of restarts", "more seconds of restarts"),
    "computing": ("less computing", "more computing"),
}


@dataclass(frozen=True)
class Headline:
    """The one sentence to remember, and why."""

    lead: str
    why: list[str]


def run_headline(policy: str, jobs: pl.DataFrame, jct_bound_s: float) -> Headline:
    """A run against the lower bound, and where its time went."""
    done = finished(jobs)
    if done.is_empty():
        return Headline(f"`{policy}` finished none of {jobs.height:,} jobs.", [])
    median_s = float(done["jct_s"].median() or 0.0)  # type: ignore[arg-type]
    parts = mean_parts(jobs)
    lead = f"`{policy}` finishes the median job in {brief(median_s)} and the mean job in {brief(parts.jct_s())}"
    if jct_bound_s > 0 and done.height == jobs.height:  # the bound is of all jobs, the mean of those that finished
        times = parts.jct_s() / jct_bound_s
        lead += ", as fast as any scheduler could" if times < 1 + NOISE else f", {times:.1f}× the least possible"
    tail = slowest(jobs)
    count = "slowest job takes" if tail.height == 1 else f"slowest 1 % of jobs ({tail.height:,}) take"
    why = [
        shares(parts, "the mean job's time") + ".",
        f"The {count} {brief(float(tail['jct_s'].min() or 0.0))}"  # type: ignore[arg-type]
        f"{'' if tail.height == 1 else ' or more'}; {shares(mean_parts(tail), 'that time')}.",
    ]
    if done.height < jobs.height:
        why.append(
            f"{jobs.height - done.height:,} of {jobs.height:,} jobs had not finished when the clock stopped."
        )
    return Headline(lead + ".", why)


def shares(parts: Parts, what: str) -> str:
    """34 % of that is waiting, 50 % computing, …: what is below half a percent is left out."""
    whole = parts.jct_s() or 1.0
    names = {
        "computing": "computing", "waiting": "waiting", "communication": "exposed communication",
        "restarts": "restarts or lost work",
    }  # fmt: skip
    record = sorted(((value / whole, names[name]) for name, value in parts.named().items()), reverse=True)
    tokens = [f"{percent(share)} {name}" for share, name in record if share >= 0.005]
    if not tokens:
        return f"nothing is known of {what}"
    first, _, name = tokens[0].partition(" % ")
    return f"{first} % of {what} is {listed([name, *tokens[1:]])}"


def comparison_headline(contest: Contest, subject: Entry, jobs: dict[str, pl.DataFrame] | None = None) -> Headline:
    """One policy against the baseline; with the jobs of both, also why and who gains."""
    base = contest.baseline
    none = [label for label in (subject.label, base) if contest.standing(label, JCT_P50) is None]
    if none:
        return Headline(f"`{none[0]}` finished none of its jobs: there is nothing to compare.", [])
    median, tail = (_change(contest, subject, metric) for metric in (JCT_P50, JCT_P99))
    lead = f"`{subject.label}` {_finishes('the median job', median)} `{base}`"
    lead += f" ({_span(contest, subject.label, JCT_P50)} instead of {_span(contest, base, JCT_P50)})"
    lead += "; p99 " + _compared(tail, median)
    if jobs:
        own, other = jobs[subject.label], jobs[base]
        if tail > 0:
            lead += because(mean_parts(slowest(own)), mean_parts(slowest(other)), "the slowest 1 % of jobs", own)
        same = not _change(contest, subject, JCT_MEAN)
        why = [mean_change(mean_parts(own), mean_parts(other), same), gains(own, other, base)]
    else:
        why = [_figures(contest, subject)]
    why += [bounds(contest, subject), *left_unfinished(contest, subject)]
    return Headline(lead + ".", [sentence for sentence in why if sentence])


def _change(contest: Contest, subject: Entry, metric: Metric) -> float:
    """By what share the subject differs from the baseline; 0 if that is noise or cannot be said."""
    own, base = subject.standings.get(metric.key), contest.standing(contest.baseline, metric)
    return (own.change() or 0.0) if own and base and not within_noise(own, base) else 0.0


def _mean(contest: Contest, label: str, metric: Metric) -> float:
    result = contest.standing(label, metric)
    return result.spread.mean if result else 0.0


def _span(contest: Contest, label: str, metric: Metric) -> str:
    return brief(_mean(contest, label, metric))


def _finishes(what: str, by: float) -> str:
    if not by:
        return f"finishes {what} about as fast as"
    return f"finishes {what} {percent(by)} {'sooner' if by < 0 else 'later'} than"


def _compared(by: float, median: float) -> str:
    if not by:
        return "is about the same"
    also = " too" if median and (median < 0) == (by < 0) else ""
    return f"is {percent(by)} {'better' if by < 0 else 'worse'}{also}"


def because(own: Parts, other: Parts, who: str, jobs: pl.DataFrame) -> str:
    """The largest part that grew, or nothing if none did."""
    grown = {name: own.named()[name] - other.named()[name] for name in own.named()}
    name = max(grown, key=lambda one: grown[one])
    if grown[name] <= NOISE * max(other.jct_s(), 1e-9):
        return ""
    verb = {"waiting": "wait", "communication": "lose", "restarts": "lose", "computing": "compute"}[name]
    where = {"communication": " to the network", "restarts": " to restarts or undone work"}.get(name, "")
    often = float(slowest(jobs)["preemptions"].mean() or 0.0)  # type: ignore[arg-type]
    preempted = f" (preempted {often:.1f} times on average)" if often >= 0.5 and name != "communication" else ""
    how = "more" if where else "longer"
    return f", because {who} {verb} {brief(grown[name])} {how}{where}{preempted}"


def mean_change(own: Parts, other: Parts, same: bool) -> str:
    """What the mean job gains or loses, part by part, largest first; `same`: within noise, nothing."""
    by_s = own.jct_s() - other.jct_s()
    moved = [(own.named()[name] - other.named()[name], name) for name in own.named()]
    record = [
        (delta, name)
        for delta, name in sorted(moved, key=lambda one: -abs(one[0]))
        if abs(delta) >= 0.01 * abs(by_s)
    ]
    if same or not record:
        return "The mean job takes about as long under both."
    parts = [f"{brief(abs(delta))} {REASONS[name][delta > 0]}" for delta, name in record if abs(delta) >= 1.0]
    return f"The mean job {'gains' if by_s < 0 else 'loses'} {brief(abs(by_s))}: {listed(parts)}."


def gains(own: pl.DataFrame, other: pl.DataFrame, base: str) -> str:
    """How many jobs finish sooner and how many later than under the baseline, by more than noise."""
    keys = [name for name in ("job_id", "seed") if name in own.columns and name in other.columns]
    both = finished(own).join(finished(other).select(*keys, pl.col("jct_s").alias("base_s")), on=keys)
    if both.is_empty():
        return ""
    sooner = both.filter(pl.col("jct_s") < (1 - NOISE) * pl.col("base_s")).height
    later = both.filter(pl.col("jct_s") > (1 + NOISE) * pl.col("base_s")).height
    return (
        f"{sooner / both.height:.0%} of jobs finish sooner than under `{base}`, {later / both.height:.0%} later, "
        f"the rest within {NOISE:.0%}."
    ).replace("%", " %")


def bounds(contest: Contest, subject: Entry) -> str:
    """How far both are from what no scheduler can beat."""
    bound = contest.bounds.get(JCT_MEAN.key)
    parts = [
        f"`{label}` takes {result.times_bound.mean:.1f} times that"
        for label in (subject.label, contest.baseline)
        if (result := contest.standing(label, JCT_MEAN)) and result.times_bound
    ]
    if bound is None or not parts:
        return ""
    return f"No scheduler can do better than a mean JCT of {brief(bound.mean)}: {listed(parts)}."


def left_unfinished(contest: Contest, subject: Entry) -> list[str]:
    """Who of the two did not finish all jobs: its means are over fewer."""
    return [
        f"`{entry.label}` left {sum(entry.unfinished.values()):,} jobs unfinished, which its means leave out."
        for entry in (subject, contest.entry(contest.baseline))
        if entry and entry.unfinished
    ]


def _figures(contest: Contest, subject: Entry) -> str:
    """What changed, from the summaries alone."""
    wait_s, base_s = (_mean(contest, label, WAIT_MEAN) for label in (subject.label, contest.baseline))
    lost, base_lost = (_mean(contest, label, LOST_TO_NETWORK) for label in (subject.label, contest.baseline))
    parts = [f"mean waiting {'falls' if wait_s < base_s else 'rises'} by {brief(abs(wait_s - base_s))}"]
    if abs(lost - base_lost) >= 0.005:
        parts.append(
            f"the share of GPU time lost to the network {'falls' if lost < base_lost else 'rises'} from "
            f"{base_lost:.0%} to {lost:.0%}".replace("%", " %")
        )
    text = listed(parts)
    return text[0].upper() + text[1:] + "."


def listed(parts: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


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
    result = []
    for metric in WEIGHED:
        own, base = one.standings.get(metric.key), other.standings.get(metric.key)
        if own and base and own.spread.mean < base.spread.mean and not within_noise(own, base):
            result.append((metric is not JCT_MEAN, _share(own, base), _sentence(metric, own, base)))
    leading = sorted(result)[:MOST]
    return [one[-1] for one in result if one in leading]


def _share(own: Standing, base: Standing) -> float:
    """By what share the one's is lower, seed by seed where that can be said; negative."""
    ratio = spread(paired_ratios(own.values, base.values).values())
    return (ratio.mean if ratio else own.spread.mean / base.spread.mean) - 1.0


def _sentence(metric: Metric, own: Standing, base: Standing) -> str:
    if metric.unit == COUNT:
        return f"{metric.title} ({text(own.spread.mean, COUNT)} instead of {text(base.spread.mean, COUNT)})"
    return f"{metric.title} (−{percent(_share(own, base))})"
