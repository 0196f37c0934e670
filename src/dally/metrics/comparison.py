"""The one comparison: means, spread, pairs by seed, noise, unfinished runs and bounds. All else only renders it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dally.errors import unknown
from dally.metrics.metric_list import (
    JCT_MEAN,
    LOST_TO_NETWORK,
    METRICS,
    SPAN,
    Metric,
    Spread,
    paired_ratios,
    spread,
)
from dally.metrics.summary import Row

Groups = dict[str, list[Row]]  # the runs of each entry, by its label
NOISE = 0.03  # share below which differences say nothing where no replications measure it
ROUNDING = 0.001  # share below which no table tells figures apart, whatever replications say
REPLICATION = "replication"  # the column that numbers runs of one seed whose restarts differ by microseconds
FORM_OF = "form_of"  # the label of runs of which tables show the better form only: the policy they are forms of
USUAL_BASELINES = ("fifo-backfill", "fifo", "easy-backfill")


@dataclass(frozen=True)
class Standing:
    """One figure of one entry: over its runs, against the baseline's runs, and against the bound."""

    values: dict[Hashable, float]  # by seed, the mean of its replications
    ranges: dict[Hashable, Spread]  # of the replications of each seed
    spread: Spread  # the mean over seeds; the least and the most of all runs
    ratios: dict[Hashable, float]  # over the baseline's of the same seed
    ratio: Spread | None
    times_bound: Spread | None
    measured: bool  # each seed has several replications: they say what is noise
    best: bool = False  # or as good as the best; never if jobs were left unfinished

    def change(self) -> float | None:
        """By what share it differs from the baseline, seed by seed; None if that cannot be said."""
        return self.ratio.mean - 1.0 if self.ratio else None

    def noise(self) -> float | None:
        """Half the range of a seed's replications, on average over seeds; None if there is one of each."""
        halves = [result.half() for result in self.ranges.values()]
        return sum(halves) / len(halves) if self.measured else None


@dataclass(frozen=True)
class Entry:
    """One policy with its settings: where it stands in every figure that its runs have."""

    label: str
    rows: list[Row]  # a run per seed, the first of its replications
    replications: list[Row]  # all runs
    unfinished: dict[Hashable, int]  # jobs left, by seed; who left none is not in it
    standings: dict[str, Standing]  # by the metric's key

    def mean(self, metric: Metric) -> float | None:
        """The mean of a figure over the runs, None if they have none."""
        result = self.standings.get(metric.key)
        return result.spread.mean if result else None


@dataclass(frozen=True)
class Contest:
    """One workload on one network: all entries, and what bounds them all."""

    workload: str
    network: str
    baseline: str  # "" if it is not among the entries
    entries: list[Entry]
    bounds: dict[str, Spread]  # by the metric's key

    def entry(self, label: str) -> Entry | None:
        """The entry of that label."""
        return next((entry for entry in self.entries if entry.label == label), None)

    def form(self, policy: str) -> str:
        """The label under which that policy stands: its own, or that of its better form."""
        forms = (entry.label for entry in self.entries if entry.rows[0].get(FORM_OF) == policy)
        return policy if self.entry(policy) else next(forms, policy)

    def ratio(self, label: str, to: str, metric: Metric) -> Spread | None:
        """One entry's figure over another's, seed by seed; None if either has none."""
        own, base = self.standing(label, metric), self.standing(to, metric)
        return spread(paired_ratios(own.values, base.values).values()) if own and base else None

    def standing(self, label: str, metric: Metric) -> Standing | None:
        """Where the entry of that label stands in a figure."""
        entry = self.entry(label)
        return entry.standings.get(metric.key) if entry else None

    def rows(self) -> list[Row]:
        """A run per entry and seed."""
        return [row for entry in self.entries for row in entry.rows]

    def replications(self) -> int:
        """How many runs there are of an entry and a seed, at most."""
        rows = (row for entry in self.entries for row in entry.replications)
        return max((int(row.get(REPLICATION) or 0) for row in rows), default=0) + 1

    def name(self) -> str:
        """The workload and the network."""
        return ", ".join(filter(None, (self.workload, self.network)))

    def title(self) -> str:
        """What is compared, in words."""
        sizes = ", ".join(f"{size:,}" for size in sorted({row["jobs"] for row in self.rows()}))
        seeds = sorted({row["seed"] for row in self.rows()})
        network = f", network {self.network}" if self.network else ""
        text = f"{self.workload}{network}: {sizes} jobs, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        return text + (f", {self.replications()} replications" if self.replications() > 1 else "")


def compare_rows(rows: Iterable[Row], baseline: str) -> list[Contest]:
    """A contest per workload and network, of rows with one run each; runs without figures do not count.

    Of a policy that was run in two forms the better one stands in it, under the label that says which.
    """
    done = [row for row in rows if row.get(JCT_MEAN.key) is not None]
    return [
        contest_of(
            _better_forms(groups_of(here, "policy"), baseline),
            baseline,
            workload=workload or "",
            network=network or "",
        )
        for (workload, network), here in by_label(done, "workload", "network").items()
    ]


def _better_forms(groups: Groups, baseline: str) -> Groups:
    """Of the forms of one policy the one with the lowest mean completion time; the baseline stays in any case."""
    best: dict[str, tuple[bool, float, str]] = {}
    for label, rows in groups.items():
        form_of = rows[0].get(FORM_OF)
        if form_of:
            mean_s = sum(row[JCT_MEAN.key] for row in rows) / len(rows)
            rank = (any(_left(row) for row in rows), mean_s, label)
            best[form_of] = min(rank, best.get(form_of, rank))
    remaining = {baseline, *(label for *_, label in best.values())}
    return {label: rows for label, rows in groups.items() if not rows[0].get(FORM_OF) or label in remaining}


def contest_of(
    groups: Groups, baseline: str, pair_by: Sequence[str] = ("seed",), workload: str = "", network: str = ""
) -> Contest:
    """The groups compared; runs that agree in `pair_by` are pairs."""
    result = {label: _keyed(rows, pair_by) for label, rows in groups.items()}
    bounds = {metric.key: _bounds(result.values(), metric) for metric in METRICS if metric.bound}
    base = result.get(baseline, {})
    entries = [_entry(label, runs, base, bounds) for label, runs in result.items()]
    known = {key: bound for key, by_run in bounds.items() if (bound := spread(by_run.values()))}
    return Contest(workload, network, baseline if base else "", _starred(entries), known)


def within_noise(one: Standing, other: Standing) -> bool:
    """Whether two standings differ by no more than chance: the one place that says so.

    They do if their means are no farther apart than half the ranges of both their replications reach, on average
    over seeds, or than tables tell apart; without replications, if they are closer than a fixed share. Seeds are
    compared one by one; where the other has a 0, the means must do.
    """
    ratios = paired_ratios(one.values, other.values)
    reach = _reach(one, other)
    if ratios:
        shares = [] if reach is None else [reach[seed] / abs(other.values[seed]) for seed in ratios]
        allowed = max(ROUNDING, sum(shares) / len(shares)) if shares else NOISE
        return abs(sum(ratios.values()) / len(ratios) - 1.0) <= allowed
    allowed = NOISE * abs(other.spread.mean) if reach is None else sum(reach.values()) / max(len(reach), 1)
    return abs(one.spread.mean - other.spread.mean) <= allowed


def _reach(one: Standing, other: Standing) -> dict[Hashable, float] | None:
    """Half the range of the one's replications and half that of the other's, by seed; None if not measured."""
    if not (one.measured and other.measured):
        return None
    shared = [seed for seed in one.ranges if seed in other.ranges]
    return {seed: one.ranges[seed].half() + other.ranges[seed].half() for seed in shared}


def favourite(contest: Contest) -> Entry | None:
    """The lowest mean completion time apart from the baseline; who left jobs unfinished only if all did."""
    others = [entry for entry in contest.entries if entry.label != contest.baseline]
    return min(others, key=lambda entry: (bool(entry.unfinished), entry.mean(JCT_MEAN) or 0.0), default=None)


def choose_baseline(labels: Sequence[str], desired: str = "") -> str:
    """The label to compare with: the wanted one, else the usual ones, else the first."""
    if desired:
        if desired not in labels:
            raise unknown("baseline", desired, labels)
        return desired
    return next((name for name in USUAL_BASELINES if name in labels), labels[0])


def lost_to_network(row: Row) -> float:
    """The share of the GPU time at work that went into exposed communication."""
    spent = (row.get("comm_gpu_s") or 0.0) + (row.get("compute_gpu_s") or 0.0)
    return float(row["comm_gpu_s"]) / spent if spent else 0.0


def by_label(rows: Iterable[Row], *labels: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows that share these labels, in the order in which they first appear."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in labels), []).append(row)
    return groups


def groups_of(rows: Iterable[Row], *labels: str) -> Groups:
    """Rows by these labels joined to one text."""
    return {" ".join(str(part) for part in key): result for key, result in by_label(rows, *labels).items()}


def with_figures(rows: Iterable[Row]) -> list[Row]:
    """The runs that finished jobs: others have no completion times."""
    return [row for row in rows if row.get(JCT_MEAN.key) is not None and row["finished"]]


def unfinished(rows: Iterable[Row], *labels: str) -> list[str]:
    """The runs that left jobs waiting, in words; of replications, the one that left most."""
    result: dict[str, int] = {}
    for row in rows:
        name = ", ".join(str(row[label]) for label in labels if row[label] not in ("", None))
        result[name] = max(_left(row), result.get(name, 0))
    return [f"{name}: {left} jobs never finished" for name, left in result.items() if left]


def _left(row: Row) -> int:
    """How many of its jobs the run did not finish."""
    return int(row["jobs"]) - int(row["finished"])


Runs = dict[Hashable, list[Row]]  # one entry's replications, by seed or whatever pairs them


def _keyed(rows: Iterable[Row], pair_by: Sequence[str]) -> Runs:
    only = pair_by[0] if len(pair_by) == 1 else ""
    result: dict[Hashable, dict[int, Row]] = {}
    for row in rows:
        key = row.get(only) if only else tuple(row.get(name) for name in pair_by)
        record = {**row, LOST_TO_NETWORK.key: lost_to_network(row)}
        result.setdefault(key, {})[int(row.get(REPLICATION) or 0)] = record
    return {key: list(by_number.values()) for key, by_number in result.items()}


def _bounds(groups: Iterable[Runs], metric: Metric) -> dict[Hashable, float]:
    """What bounds every entry, seed by seed.

    A run that left jobs unfinished states the bound of fewer jobs, which says nothing of the others.
    """
    result: dict[Hashable, float] = {}
    for key, row in ((key, row) for runs in groups for key, rows in runs.items() for row in rows):
        bound = row.get(metric.bound)
        if bound is not None and not _left(row):
            result[key] = min(float(bound), result.get(key, float(bound)))
    return result


def _entry(label: str, runs: Runs, base: Runs, bounds: dict[str, dict[Hashable, float]]) -> Entry:
    left = {key: most for key, rows in runs.items() if (most := max(_left(row) for row in rows))}
    measured = all(len(rows) > 1 for rows in runs.values())
    standings = {}
    for metric in METRICS:
        over = {} if left else bounds.get(metric.key, {})
        result = _standing(_ranges(runs, metric), _ranges(base, metric), over, measured)
        if result:
            standings[metric.key] = result
    every = [row for rows in runs.values() for row in rows]
    return Entry(label, [rows[0] for rows in runs.values()], every, left, standings)


def _ranges(runs: Runs, metric: Metric) -> dict[Hashable, Spread]:
    """The range of the replications of each seed that has the figure; where no job finished no time is one."""
    result = {
        key: spread(row.get(metric.key) for row in rows if row["finished"] or metric.unit != SPAN)
        for key, rows in runs.items()
    }
    return {key: one for key, one in result.items() if one}


def _standing(
    ranges: dict[Hashable, Spread],
    base: Mapping[Hashable, Spread],
    bound: Mapping[Hashable, float],
    measured: bool,
) -> Standing | None:
    values = {key: one.mean for key, one in ranges.items()}
    mean = spread(values.values())
    if mean is None:
        return None
    whole = Spread(mean.mean, min(one.low for one in ranges.values()), max(one.high for one in ranges.values()))
    means = {key: one.mean for key, one in base.items()}
    ratios = paired_ratios(values, means)
    times = spread(paired_ratios(values, bound).values())
    return Standing(values, ranges, whole, ratios, _ratio(ratios, ranges, means), times, measured)


def _ratio(
    ratios: Mapping[Hashable, float], ranges: Mapping[Hashable, Spread], base: Mapping[Hashable, float]
) -> Spread | None:
    """The mean of the ratios; the least and the most of all runs, each over the baseline's mean of its seed."""
    mean = spread(ratios.values())
    if mean is None:
        return None
    ends = [end / base[key] for key in ratios for end in (ranges[key].low, ranges[key].high)]
    return Spread(mean.mean, min(ends), max(ends))


def _starred(entries: Sequence[Entry]) -> list[Entry]:
    """The entries with their best standings marked."""
    best = {metric.key: set(_best(entries, metric)) for metric in METRICS}
    return [
        replace(
            entry,
            standings={
                key: replace(result, best=entry.label in best[key]) for key, result in entry.standings.items()
            },
        )
        for entry in entries
    ]


def _best(entries: Sequence[Entry], metric: Metric) -> Iterator[str]:
    """Who is best, or as good as the best, of those that finished all jobs; nobody if all of them are."""
    if metric.lower_is_better is None:
        return
    sign = 1.0 if metric.lower_is_better else -1.0
    able = {
        entry.label: entry.standings[metric.key]
        for entry in entries
        if metric.key in entry.standings and not entry.unfinished
    }
    if not able:
        return
    first = min(able.values(), key=lambda result: sign * result.spread.mean)
    equal = [label for label, result in able.items() if within_noise(result, first)]
    if len(equal) < len(able):
        yield from equal
