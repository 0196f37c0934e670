"""Durations foretold before jobs start: pinball loss against the same user's last two jobs, on traces with users.

usage: python -m benchmarks.expected_durations

Each trace is replayed as if every job started when it was submitted. Jobs count whose user has two that ended
before. The loss is the mean over the quantiles 10, 25, 50, 75 and 90 %, of ln seconds and of seconds. The last two
jobs stand for a distribution (straight lines between them), or for their mean: the better of both counts.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import exp, log
from pathlib import Path
from typing import Final

from dally.benchmark.tables_page import shared_folder
from dally.progress.expected_duration import (
    QUANTILES,
    DurationForecast,
    ExpectedDuration,
    pinball,
    weighted_quantiles,
)
from dally.traces import read_history
from dally.traces.rows import TraceRow

TRACES: Final = {
    "Venus, 20 days": "helios_venus_window20d.csv.gz",
    "Philly, 14 days": "philly_win14d.csv.gz",
    "Philly, 129 days": "philly.csv.gz",
}


class Losses:
    """Sums over jobs, in ln seconds and in seconds."""

    def __init__(self) -> None:
        self.ln = self.seconds = 0.0

    def add(self, quantiles: list[float], value_s: float) -> None:
        self.ln += pinball(quantiles, log(value_s))
        self.seconds += pinball([exp(value) for value in quantiles], value_s)


def measured(rows: list[TraceRow]) -> tuple[int, Losses, list[Losses], float]:
    """Jobs, our losses, those of both baselines, and the share of jobs between our 10 and 90 %."""
    predictor, ours, two = ExpectedDuration(), Losses(), [Losses(), Losses()]
    last: dict[str, list[float]] = {}
    running: list[tuple[float, int, DurationForecast | None]] = []
    jobs = inside = 0
    for number, row in enumerate(rows):
        while running and running[0][0] <= row.submit_s:
            _, ended, said = heappop(running)
            spec = rows[ended].spec
            predictor.learn(spec.user, spec.name, spec.gpus, rows[ended].stated, said)
            last.setdefault(spec.user, []).append(log(max(1.0, rows[ended].stated)))
        spec, value_s = row.spec, max(1.0, row.stated)
        forecast = predictor.forecast(spec.user, spec.name, spec.gpus)
        before = last.get(spec.user, [])[-2:]
        if forecast is not None and len(before) == 2:
            jobs += 1
            ours.add([*forecast.quantiles], value_s)
            two[0].add([*weighted_quantiles(before, 1.0)], value_s)
            two[1].add([sum(before) / 2.0] * len(QUANTILES), value_s)
            inside += forecast.quantiles[0] <= log(value_s) <= forecast.quantiles[-1]
        heappush(running, (row.submit_s + row.stated, number, forecast))
    return jobs, ours, two, inside / max(1, jobs)


def main() -> None:
    """A line for each trace."""
    print("| trace | jobs | ln seconds: last two | ours | | seconds: last two | ours | | within 10–90 % |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, file in TRACES.items():
        path = shared_folder() / "traces" / file
        if not Path(path).exists():
            print(f"| {name} | not there |")
            continue
        jobs, ours, two, inside = measured(sorted(read_history(path).rows, key=lambda row: row.submit_s))
        ln, seconds = min(one.ln for one in two) / jobs, min(one.seconds for one in two) / jobs
        print(
            f"| {name} | {jobs} | {ln:.3f} | {ours.ln / jobs:.3f} | {100.0 * (ours.ln / jobs / ln - 1.0):+.0f} % "
            f"| {seconds:.0f} | {ours.seconds / jobs:.0f} | {100.0 * (ours.seconds / jobs / seconds - 1.0):+.0f} % "
            f"| {100.0 * inside:.0f} % |"
        )


if __name__ == "__main__":
    main()
