"""The paper's experiments and the public traces as one page: our figures beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from dally.benchmark.tables_page import tables
from dally.metrics.comparison import Contest, Entry, favourite
from dally.metrics.metric_list import COMM, JCT_MEAN, MAKESPAN, Metric
from dally.policies.declaration import DURATIONS
from dally.policies.registry import POLICIES

PAPER = ("paper-batch", "paper-poisson")
OURS = "dally-paper"
CONSOLIDATED = "dally-paper-consolidated"
# arXiv 2401.16492, abstract: each an "up to", against consolidation-based scheduling, on a congested network.
CLAIMED = {MAKESPAN: -0.69, JCT_MEAN: -0.83, COMM: -0.98}
# Against whom: the paper's consolidation-based schedulers, its own variants, and the usual default.
BASELINES = ("tiresias", "gandiva", CONSOLIDATED, "dally-paper-manual", "dally-paper-nowait", "fifo-backfill")

HEAD = """# Results

Written by `{command}`: run it again rather than change the page.

## The paper's headline

*GPU Cluster Scheduling for Network-Sensitive Deep Learning* (arXiv 2401.16492) states what its scheduler gains over
consolidation-based scheduling under congestion, each figure an "up to". Below it stands what `dally-paper`, built
after the paper, gains over each baseline here: on the paper's own two workloads, in the cell where it gains most
and in the one where it gains least. Negative is better. A cell is a workload on a network; seeds are compared one
by one.

"""
WHY = """
Why these differ from the paper's. The authors' public simulator, run as committed, lets running jobs bid again and
hold gangs that they never use (99 % of the GPUs leased, 10 % useful), and its Gandiva scatters every gang of more
than 8 GPUs at random. With the hoarding mended there, Dally's makespan and mean JCT on the batch are about 10 %
worse than Tiresias's, and its communication is 10 % less; 98 % less communication appears only against Gandiva or
Dally without timers. Here every policy runs on one engine, one model of the network and one cost of preemption, and
what a policy does not use it does not hold. On 512 GPUs the paper's Poisson workload hardly queues, so that there
is little to gain. An "up to" over many settings also grows with the settings one tries; the tables below show all
of ours.

## Who wins where

Mean JCT of `dally-paper` over that of the best other policy which does not know durations, and over its own
consolidated variant; below 1 `dally-paper` is better.

"""
KNOWING = tuple(name for name, row in POLICIES.items() if row.needs == DURATIONS)  # as no live scheduler does


class Gain(NamedTuple):
    """The change of a figure against a baseline in one cell."""

    change: float
    workload: str
    network: str

    def shown(self) -> str:
        """In words: −12 % (paper-batch, congested)."""
        return f"{percent(self.change)} ({self.workload}, {self.network})"


def percent(change: float) -> str:
    """A change with its sign."""
    whole = round(100.0 * change)
    return f"{'+' if whole > 0 else '−' if whole < 0 else ''}{abs(whole)} %"


def gains(contests: Iterable[Contest], baseline: str, metric: Metric) -> list[Gain]:
    """What `dally-paper` gains in each cell, best first."""
    found = [(contest.ratio(OURS, contest.form(baseline), metric), contest) for contest in contests]
    return sorted(Gain(ratio.mean - 1.0, one.workload, one.network) for ratio, one in found if ratio)


def headline(contests: Sequence[Contest]) -> str:
    """The table of the paper's claims and of our gains."""
    lines = ["| | makespan | mean JCT | exposed communication |", "|---|---|---|---|"]
    claims = " | ".join(f"up to {percent(change)}" for change in CLAIMED.values())
    lines.append(f"| the paper, against consolidation-based scheduling, congested | {claims} |")
    here = [contest for contest in contests if contest.workload in PAPER]
    for baseline in BASELINES:
        found = [gains(here, baseline, metric) for metric in CLAIMED]
        if not all(found):
            continue
        lines.append(f"| `{baseline}`, most | {' | '.join(one[0].shown() for one in found)} |")
        lines.append(f"| `{baseline}`, least | {' | '.join(one[-1].shown() for one in found)} |")
    return "\n".join(lines) + "\n"


def winners(contests: Sequence[Contest]) -> str:
    """For each cell the best of the policies that do not know durations, and how `dally-paper` stands to it."""
    lines = [
        f"| workload | network | best other | mean JCT, h | `{OURS}`, h | ÷ best | ÷ `{CONSOLIDATED}` |",
        "|---|---|---|---|---|---|---|",
    ]
    for contest in contests:
        ours, best = contest.entry(OURS), _best_other(contest)
        if ours is None or best is None:
            continue
        means_h = [(entry.mean(JCT_MEAN) or 0.0) / 3600 for entry in (best, ours)]
        ratios = [contest.ratio(OURS, name, JCT_MEAN) for name in (best.label, CONSOLIDATED)]
        cells = [contest.workload, contest.network, f"`{best.label}`", *(f"{mean:,.2f}" for mean in means_h)]
        lines.append(f"| {' | '.join([*cells, *(f'{one.mean:.2f}' if one else '-' for one in ratios)])} |")
    return "\n".join(lines) + "\n"


def _best_other(contest: Contest) -> Entry | None:
    """The lowest mean JCT of the others that do not know durations; who left jobs unfinished only if all did."""
    others = [entry for entry in contest.entries if entry.label.partition(":")[0] not in KNOWING]
    return favourite(replace(contest, baseline=OURS, entries=others))


def results_page(contests: Sequence[Contest], command: str, figure: str) -> str:
    """The whole page in Markdown; `figure` is the picture's path from it."""
    picture = f"\n![Mean JCT of every policy over the lower bound, by workload and network]({figure})\n\n"
    return HEAD.format(command=command) + headline(contests) + WHY + winners(contests) + picture + tables(contests)
