"""How one policy stands in a cell to the best of the others, and in how many cells it keeps what we promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dally.metrics.comparison import Contest, Entry, favourite
from dally.metrics.metric_list import COMM, JCT_MEAN, JCT_P99, Metric


class OurStanding(NamedTuple):
    """One cell: ours and the best other, in hours."""

    workload: str
    network: str
    ours_h: float
    best: str  # of the others, by mean JCT
    best_h: float
    change: float  # of the mean JCT against the best other's, seed by seed
    p99_h: float
    least_p99_h: float  # of the others
    comm: float | None  # exposed communication ÷ reachable

    def comm_text(self) -> str:
        """The last figure as tables have it."""
        return "–" if self.comm is None else f"{self.comm:.2f}"

    def p99_text(self) -> str:
        """Ours / the least of the others."""
        return f"{self.p99_h:.0f} / {self.least_p99_h:.0f}"


def our_standing(contest: Contest, ours: str, left_out: Sequence[str] = ()) -> OurStanding | None:
    """How the policy stands in a cell; None if it or every other is missing there.

    Policies of the names `left_out`, in any form, are no others; who left jobs unfinished only if all did.
    """
    others = [entry for entry in contest.entries if entry.label.partition(":")[0] not in left_out]
    others = [entry for entry in others if entry.label != ours]
    entry, best = contest.entry(ours), favourite(replace(contest, entries=others))
    if entry is None or best is None:
        return None
    ratio = contest.ratio(ours, best.label, JCT_MEAN)
    comm = entry.standings.get(COMM.key)
    finished = [other for other in others if not other.unfinished] or others
    return OurStanding(
        contest.workload,
        contest.network,
        _hours(entry, JCT_MEAN),
        best.label,
        _hours(best, JCT_MEAN),
        ratio.mean - 1.0 if ratio else 0.0,
        _hours(entry, JCT_P99),
        min(_hours(other, JCT_P99) for other in finished),
        comm.times_bound.mean if comm and comm.times_bound else None,
    )


def _hours(entry: Entry, metric: Metric) -> float:
    return (entry.mean(metric) or 0.0) / 3600.0


def promises(lines: Sequence[OurStanding]) -> str:
    """In how many cells each promise is kept."""
    counts = {
        "within 3 % of the best other or better": sum(line.change <= 0.03 for line in lines),
        "better by 10 % or more": sum(line.change <= -0.1 for line in lines),
        "p99 at most 5 % above the lowest": sum(line.p99_h <= 1.05 * line.least_p99_h for line in lines),
        "communication at most 1.05 × reachable": sum(line.comm is None or line.comm <= 1.05 for line in lines),
    }
    return f"Of {len(lines)} cells: " + "; ".join(f"{text}: {count}" for text, count in counts.items()) + "."
