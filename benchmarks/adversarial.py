"""Workloads made to find the weak sides of the flagship, with every policy.

usage: python -m benchmarks.adversarial [--rows …] [--policies …] [--network slow] [--seeds 1,2,3,11,12,13]
                                        [--jobs N] [--out DIR] [--markdown FILE] [--json FILE]

The rows are in benchmarks/adversarial_workloads.py. The first of --policies is judged against those of the others
that do not know durations. Finished runs are stored in --out: what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.adversarial_workloads import ASIDE, CHOICE, ROWS, prepared
from dally.benchmark.cells import HOUR_S, MIX
from dally.cli.runs.batch import Batch, names, open_store, whole_numbers
from dally.errors import InputError, unknown
from dally.metrics.comparison import Contest, Entry, compare_rows
from dally.metrics.metric_list import (
    JCT_MEAN,
    JCT_P99,
    PREEMPTIONS,
    SHORT_SLOWDOWN,
    SPAN,
    USER_SLOWDOWN,
    Metric,
)
from dally.metrics.summary import Row
from dally.policies.declaration import NOTHING
from dally.policies.registry import POLICIES
from dally.report.text_table import TextCell, TextTable
from dally.runs.scenario import Scenario
from dally.sweep.batch import Outcome
from dally.sweep.policy_list import both_forms
from dally.sweep.run import Loads, comparison_runs
from dally.sweep.workers.local import LocalWorkers
from dally.whole_file import write_whole

FIGURES: Final = (JCT_MEAN, JCT_P99, SHORT_SLOWDOWN, USER_SLOWDOWN, PREEMPTIONS)
# How far ours may lie above the lowest of the rivals; a slowdown of 1.1 is as good as none.
JUDGED: Final[dict[Metric, float]] = {JCT_MEAN: 1.05, JCT_P99: 1.10, SHORT_SLOWDOWN: 1.5}
WITHOUT_DURATIONS: Final = (NOTHING, "models")
MARK: Final = " †"
WITHIN: Final = "Every policy, judged like this against the lowest of the others, is within the limits in:"

PAGE: Final = """# Adversarial workloads

Written by `{command}`: run it again rather than change the page.

Generated workloads against a scheduler that serves short and narrow jobs first: gangs that need a whole cluster,
one user that floods it, days and nights, jobs whose durations cannot be learnt, and gangs of full racks. Restarts
take 1 s per GPU; the network is `{network}`. The constants of `dally` were chosen on seeds {choice} of the first
{chosen} workloads, such that mean JCT of the benchmark's cells `batch32` and `lingjun` does not change. The
other workloads and the seeds {aside} are held out: no constant was chosen on them.

Of a policy that can place gangs anywhere or at their closest tier only, the form with the lower mean JCT counts.
Policies marked † know durations, and are not rivals. Short jobs take at most 10 minutes. A slowdown is the
time to completion ÷ the time alone at the closest placement, of at least 10 s. The worst user's is the largest of
the users' means.

## Summary

`{ours}` against the lowest figure of any rival without durations, which may be a different rival in each column. A
figure is bold where it is within its limit: mean JCT 5 %, p99 10 %, slowdown of short jobs 1.5 times.

"""


class Judgement(NamedTuple):
    """One figure of one workload: ours, and the lowest of the rivals'."""

    ours: float
    lowest: float
    rival: str

    def ratio(self) -> float:
        """Ours ÷ the lowest."""
        return self.ours / self.lowest if self.lowest else 1.0


def knows_durations(label: str) -> bool:
    """Whether the policy is told what no scheduler of a real cluster knows."""
    return POLICIES[label.partition(":")[0]].needs not in WITHOUT_DURATIONS


def judged(contest: Contest, ours: str, metric: Metric) -> Judgement | None:
    """Our figure beside the lowest of the rivals that finished all jobs; None where there is none."""
    entry = contest.entry(ours)
    own = entry.mean(metric) if entry else None
    rivals = [
        (value, other.label)
        for other in contest.entries
        if other.label != ours and not knows_durations(other.label) and not other.unfinished
        if (value := other.mean(metric)) is not None
    ]
    return Judgement(own, *min(rivals)) if own is not None and rivals else None


def shown(value: float | None, metric: Metric) -> str:
    """A figure as the tables have it."""
    if value is None:
        return "–"
    if metric is PREEMPTIONS:
        return f"{value:,.0f}"
    return f"{value / HOUR_S:.2f}" if metric.unit == SPAN else f"{value:,.2f}"


def heading(metric: Metric) -> str:
    """What stands above a figure's column."""
    return f"{metric.short_title()}, h" if metric.unit == SPAN else metric.short_title()


def policies_table(contest: Contest) -> TextTable:
    """Every policy's figures, by mean JCT."""

    def order(entry: Entry) -> tuple[bool, float]:
        return bool(entry.unfinished), entry.mean(JCT_MEAN) or 0.0

    lines = []
    for entry in sorted(contest.entries, key=order):
        left = f" ({sum(entry.unfinished.values())} unfinished)" if entry.unfinished else ""
        name = entry.label + (MARK if knows_durations(entry.label) else "") + left
        lines.append([TextCell(name), *(TextCell(shown(entry.mean(metric), metric)) for metric in FIGURES)])
    return TextTable(["policy", *map(heading, FIGURES)], lines)


def summary_table(contests: Sequence[Contest], ours: str) -> TextTable:
    """A line per workload: each judged figure, ours / the lowest."""
    lines = []
    for contest in contests:
        cells = [TextCell(contest.workload)]
        for metric, most in JUDGED.items():
            result = judged(contest, ours, metric)
            if result is None:
                cells.append(TextCell("–"))
                continue
            text = f"{shown(result.ours, metric)} / {shown(result.lowest, metric)} ({result.rival})"
            cells.append(TextCell(text, result.ratio() <= most))
        lines.append(cells)
    return TextTable(["workload", *(f"{heading(metric)}: ours / lowest" for metric in JUDGED)], lines)


def verdict(contests: Sequence[Contest], ours: str) -> str:
    """In how many workloads each limit is kept, and the worst ratio."""
    texts = []
    for metric, most in JUDGED.items():
        results = [
            (result.ratio(), contest.workload) for contest in contests if (result := judged(contest, ours, metric))
        ]
        if results:
            good = sum(ratio <= most for ratio, _ in results)
            texts.append(
                f"{metric.title} in {good} of {len(results)}, at worst {max(results)[0]:.2f} times the lowest"
            )
    return "Within its limit: " + "; ".join(texts) + "."


def within_table(contests: Sequence[Contest]) -> TextTable:
    """Every policy judged as ours is: in how many workloads it is within each limit of the lowest of the others."""
    counted = []
    for label in dict.fromkeys(entry.label for contest in contests for entry in contest.entries):
        ratios = {
            metric: [result.ratio() for contest in contests if (result := judged(contest, label, metric))]
            for metric in JUDGED
        }
        good = [sum(ratio <= most for ratio in ratios[metric]) for metric, most in JUDGED.items()]
        cells = [f"{count} of {len(ratios[metric])}" for count, metric in zip(good, JUDGED, strict=True)]
        counted.append((-sum(good), label, cells))
    lines = [
        [TextCell(label + (MARK if knows_durations(label) else "")), *map(TextCell, cells)]
        for _, label, cells in sorted(counted)
    ]
    return TextTable(["policy", *(metric.title for metric in JUDGED)], lines)


def contests_of(rows: Sequence[Row], seeds: Sequence[int]) -> list[Contest]:
    """The workloads compared over some of the seeds."""
    return compare_rows([row for row in rows if row["seed"] in seeds], "")


def groups_of(seeds: Sequence[int]) -> dict[str, list[int]]:
    """The seeds on which constants were chosen, and the others, as far as they were run."""
    groups = {
        "tuning seeds": [seed for seed in seeds if seed in CHOICE],
        "held-out seeds": [seed for seed in seeds if seed not in CHOICE],
    }
    return {name: group for name, group in groups.items() if group}


def sections(rows: Sequence[Row], seeds: Sequence[int], ours: str) -> list[tuple[str, TextTable, str, TextTable]]:
    """Heading, summary, verdict, and the verdicts of all policies for each group of seeds."""
    found = []
    for name, group in groups_of(seeds).items():
        contests = contests_of(rows, group)
        title = f"{name} ({', '.join(map(str, group))})"
        found.append((title, summary_table(contests, ours), verdict(contests, ours), within_table(contests)))
    return found


def page(rows: Sequence[Row], seeds: Sequence[int], ours: str, network: str) -> str:
    """The page in Markdown: summaries first, then every policy on every workload."""
    head = PAGE.format(
        command=shlex.join(["python", "-m", "benchmarks.adversarial", *sys.argv[1:]]),
        network=network,
        choice=", ".join(map(str, CHOICE)),
        aside=", ".join(map(str, ASIDE)),
        chosen=sum(not workload.aside for workload in ROWS.values()),
        ours=ours,
    )
    parts = [
        f"### {title[:1].upper()}{title[1:]}\n\n{table.markdown()}\n{text}\n\n{WITHIN}\n\n{within.markdown()}"
        for title, table, text, within in sections(rows, seeds, ours)
    ]
    parts.append("## All policies\n\nMeans over all seeds.\n")
    for contest in contests_of(rows, seeds):
        workload = ROWS[contest.workload]
        about = f"{workload.about}; {workload.cluster}, {workload.jobs:,} jobs, load {workload.load:g}"
        aside = ". Held out" if workload.aside else ""
        text = f"{about[:1].upper()}{about[1:]}{aside}."
        parts.append(f"### {contest.workload}\n\n{text}\n\n{policies_table(contest).markdown()}")
    return head + "\n".join(parts)


def values(rows: Sequence[Row], seeds: Sequence[int], ours: str) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "ours": ours,
        "results": [
            {
                "workload": contest.workload,
                "seeds": group,
                "aside": ROWS[contest.workload].aside or name != next(iter(groups_of(CHOICE))),
                "policies": {
                    entry.label: {metric.key: entry.mean(metric) for metric in FIGURES} for entry in contest.entries
                },
                "judged": {
                    metric.key: result._asdict() | {"ratio": result.ratio()}
                    for metric in JUDGED
                    if (result := judged(contest, ours, metric))
                },
            }
            for name, group in groups_of(seeds).items()
            for contest in contests_of(rows, group)
        ],
    }


def run_all(given: argparse.Namespace, seeds: Sequence[int]) -> Outcome:
    """Every policy on every workload, made now or from an earlier call."""
    for name in names(given.rows):
        if name not in ROWS:
            raise unknown("row", name, ROWS)
    base = Scenario(trace="", cluster="", policy="", mix=MIX, restart_per_gpu_s=1.0)
    with tempfile.TemporaryDirectory() as temporary, open_store(given.out) as store:
        folder = (given.out or Path(temporary)) / "traces"
        loads: Loads = {name: {seed: prepared(name, seed, folder) for seed in seeds} for name in names(given.rows)}
        runs = comparison_runs(loads, [given.network], both_forms([given.policies]), base)
        return Batch(LocalWorkers(given.jobs)).run(runs, store)


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--policies", default="dally,all", help="the first is judged against the others")
    parser.add_argument("--network", default="slow")
    parser.add_argument("--seeds", default=",".join(map(str, (*CHOICE, *ASIDE))))
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one per core")
    parser.add_argument("--out", type=Path, help="keep finished runs there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--json", type=Path, help="write all figures there")
    return parser.parse_args()


def main() -> None:
    """Run what is missing, then print the summaries."""
    given = arguments()
    try:
        seeds = whole_numbers("--seeds", given.seeds)
        ours = both_forms([given.policies])[0].label()
        outcome = run_all(given, seeds)
    except InputError as error:
        sys.exit(f"adversarial: {error}")
    for contest in contests_of(outcome.rows, seeds):
        print(f"{contest.workload}: {ROWS[contest.workload].about}\n\n{policies_table(contest).aligned()}\n")
    for title, table, text, within in sections(outcome.rows, seeds, ours):
        print(f"{title}\n\n{table.aligned()}\n\n{text}\n\n{WITHIN}\n\n{within.aligned()}\n")
    if given.markdown:
        write_whole(given.markdown, page(outcome.rows, seeds, ours, given.network).encode())
    if given.json:
        write_whole(given.json, json.dumps(values(outcome.rows, seeds, ours), indent=1).encode())
    if outcome.failures:
        sys.exit("\n".join(outcome.failures))


if __name__ == "__main__":
    main()
