"""The smallest cluster on which jobs wait no longer than today, found by bisection over machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from dally.errors import InputError
from dally.metrics.summary import mean, quantile
from dally.runs.assemble import assemble
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run, comparison_runs
from dally.sweep.whatif.calibration import Carry
from dally.sweep.whatif.change import Change, WhatIfSide, changed
from dally.sweep.whatif.from_history import HistoryWhatIf, on_cluster, work_traces

DRAWS = 400
SURE = 0.9  # of the draws lie in the interval
FEWEST_SPANS = 20  # of the record's time, drawn anew as a whole: jobs of one day wait together
DAY_S = 86400.0
MINUTE_S = 60.0

JobWaits = dict[tuple[int, str], tuple[float, float]]  # by seed and job: submitted, waited


class ClusterTrial(NamedTuple):
    """A changed cluster: mean and p95 wait, and how much longer the mean job waits there, with its interval."""

    gpus: int
    wait_mean_s: float
    wait_p95_s: float
    longer_s: float
    low_s: float
    high_s: float


class Trials:
    """Replays of the same work on changed clusters, each compared with today's waits."""

    def __init__(
        self, request: HistoryWhatIf, seeds: Sequence[int], folder: Path, carry: Carry,
        traces: dict[int, Path] | None = None,
    ) -> None:  # fmt: skip
        """`traces`: the work of the jobs, seed by seed, if it is written already."""
        self.before: WhatIfSide[Scenario] = request.today()
        self._seeds = seeds
        self._folder = folder
        self._carry = carry
        self._today = waits_of(request.runs[: len(seeds)])
        self._utilization = mean(
            [FolderRecord(run.folder).summary["utilization"] for run in request.runs[: len(seeds)] if run.folder]
        )
        self._traces = traces or work_traces(self.before.config, seeds, folder)

    def idle_share(self) -> float:
        """Of the GPUs, over the time of today's replay."""
        return max(0.0, 1.0 - self._utilization)

    def today(self) -> ClusterTrial:
        """As it is."""
        waits = [wait_s for _, wait_s in self._today.values()]
        gpus = self.before.topology.total_gpus()
        return ClusterTrial(gpus, mean(waits), quantile(sorted(waits), 0.95), 0.0, 0.0, 0.0)

    def trial(self, change: Change, name: str, repair_s: float | None = None) -> ClusterTrial:
        """What a change comes to. InputError: a job would never run."""
        after = changed(change, self.before)
        loads = {name: on_cluster(after.topology, self._traces, self._folder / name)}
        base = replace(after.config, trace_format="csv", zone="UTC", durations="closest")
        base = base if repair_s is None else replace(base, repair_s=repair_s)
        runs = comparison_runs(loads, [base.network], [Chosen(base.policy, base.settings)], base)
        runs = with_folders(runs, self._folder / "runs")
        assemble(runs[0].scenario)  # a job that fits no longer, in its partition too, is said before anything runs
        self._carry(runs)
        waits = waits_of(runs)
        if len(waits) < len(self._today):
            raise InputError(f"{after.label}: {len(self._today) - len(waits):,} jobs do not finish")
        pairs = [(submit_s, waits[key][1] - wait_s) for key, (submit_s, wait_s) in self._today.items()]
        ordered = sorted(wait_s for _, wait_s in waits.values())
        longer_s = mean([more_s for _, more_s in pairs])
        return ClusterTrial(
            after.topology.total_gpus(), mean(ordered), quantile(ordered, 0.95), longer_s, *interval(pairs)
        )


def waits_of(runs: Sequence[Run]) -> JobWaits:
    """The waits of finished jobs of runs that left a folder, seed by seed."""
    return job_waits([FolderRecord(run.folder).jobs for run in runs if run.folder])


def job_waits(tables: Sequence[Any]) -> JobWaits:
    """The waits of finished jobs, seed by seed."""
    return {
        (number, job_id): (submit_s, wait_s)
        for number, table in enumerate(tables)
        for job_id, submit_s, wait_s, finish_s in table.select(
            "job_id", "submit_s", "queue_s", "finish_s"
        ).iter_rows()
        if finish_s is not None
    }


def interval(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Within which the mean of the second values lies: days of the record drawn anew, with the seed 1."""
    times = [time_s for time_s, _ in pairs]
    first_s, last_s = min(times), max(times)
    width_s = max(min(DAY_S, (last_s - first_s) / FEWEST_SPANS), 1.0)
    spans: dict[int, list[float]] = {}
    for time_s, value in pairs:
        spans.setdefault(int((time_s - first_s) / width_s), []).append(value)
    sums = [(sum(span), float(len(span))) for _, span in sorted(spans.items())]
    draw = Random(1)
    means = []
    for _ in range(DRAWS):
        drawn = draw.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    return quantile(means, (1.0 - SURE) / 2), quantile(means, (1.0 + SURE) / 2)


def between(low: int, high: int, low_s: float, high_s: float, guess: int) -> int:
    """A number between these at which the seconds, at most 0 at one end and above it at the other, may be 0.

    Waits grow ever faster as a cluster shrinks, so their logarithm is taken as a line. Where the upper end is not
    known, it is the guess if that lies between them, or the middle.
    """
    middle = (low + high) // 2
    if not math.isfinite(high_s):
        return guess if low < guess < high else middle
    below, above = math.log1p(-low_s / MINUTE_S), math.log1p(high_s / MINUTE_S)
    share = below / (below + above) if below + above > 0.0 else 0.5
    return min(max(low + round(share * (high - low)), low + 1), high - 1)


def save_gpus(trials: Trials, change: Change) -> dict[str, Any]:
    """How many GPUs could go while the mean job waits no longer than today, at least and at most."""
    tier = trials.before.topology.tiers[0]
    tried: dict[int, ClusterTrial | None] = {}

    def at(fewer: int) -> ClusterTrial | None:
        if fewer not in tried:
            delta = f"-{fewer} {tier}" if fewer else ""
            try:
                tried[fewer] = trials.trial(replace(change, cluster_delta=delta), f"minus-{fewer}")
            except InputError:  # a job fits no longer
                tried[fewer] = None
        return tried[fewer]

    def most(worse_s: Callable[[ClusterTrial], float]) -> int | None:
        """The most machines that can go while that many seconds are not above 0."""
        first = at(0)
        if first is None or worse_s(first) > 0.0:
            return None
        known = {fewer: worse_s(one) if one else math.inf for fewer, one in tried.items()}
        low = max(fewer for fewer, seconds in known.items() if seconds <= 0.0)
        high = min((fewer for fewer in known if fewer > low), default=machines)
        while high - low > 1:
            middle = between(low, high, known[low], known.get(high, math.inf), spare)
            if len(known) % 3 == 0:  # a line may come closer from one side alone
                middle = (low + high) // 2
            one = at(middle)
            known[middle] = worse_s(one) if one else math.inf
            low, high = (middle, high) if known[middle] <= 0.0 else (low, middle)
        return low

    machines = trials.before.topology.machine_count()
    spare = round(machines * trials.idle_share())
    best = most(lambda one: one.longer_s)
    surely = most(lambda one: one.high_s)
    possibly = most(lambda one: one.low_s)
    now = trials.today()

    def saved(fewer: int | None) -> int:
        one = tried[fewer] if fewer is not None else None
        return now.gpus - one.gpus if one else 0

    after = tried[best] if best is not None else None
    return {
        "policy": changed(change, trials.before).label,
        "today": now._asdict(),
        "smallest": after._asdict() if after else None,  # None: jobs wait longer on the same cluster already
        "saved_machines": best or 0,
        "saved_gpus": saved(best),
        "saved_gpus_range": [saved(surely), saved(possibly)],
        "tried": {str(fewer): one._asdict() if one else None for fewer, one in sorted(tried.items())},
    }
