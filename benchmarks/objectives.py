"""What each objective of the flagship brings and costs, on cells of the benchmark and adversarial workloads.

usage: python -m benchmarks.objectives [--rows …] [--cells WORKLOAD:NETWORK,…] [--seeds 1,2,3] [--jobs N]
                                       [--out DIR] [--markdown FILE]

Rows are those of benchmarks/adversarial_workloads.py, cells those of `dally benchmark`. Finished runs are kept in
--out: what is there is not run again.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Final

from benchmarks.adversarial import heading, shown
from benchmarks.adversarial_workloads import ROWS, prepared
from dally.benchmark.cells import MIX, cell_loads
from dally.cli.runs.batch import Batch, names, open_store, whole_numbers
from dally.errors import InputError, unknown
from dally.metrics.comparison import Contest, compare_rows
from dally.metrics.metric_list import (
    JCT_MEAN,
    JCT_P99,
    MAKESPAN,
    SHORT_SLOWDOWN,
    USER_RHO,
    USER_SLOWDOWN,
    Metric,
)
from dally.metrics.summary import Row
from dally.policies.dally.declared import OBJECTIVES
from dally.report.text_table import TextCell, TextTable
from dally.runs.scenario import Scenario
from dally.sweep.batch import Outcome
from dally.sweep.policy_list import both_forms
from dally.sweep.run import Run, comparison_runs
from dally.sweep.workers.local import LocalWorkers
from dally.whole_file import write_whole

SHARED: Final = Path(__file__).resolve().parents[2] / "shared"
CELLS: Final = "batch32:slow,batch32:congested,lingjun:slow,lingjun:congested,venus80:congested,itp72:congested"
USUAL: Final = "jct"
# What each objective is for, in the order in which the tables have the figures.
PROMISES: Final[dict[str, tuple[Metric, ...]]] = {
    "jct": (JCT_MEAN,),
    "p99": (JCT_P99,),
    "slowdown": (SHORT_SLOWDOWN,),
    "makespan": (MAKESPAN,),
    "fair": (USER_SLOWDOWN, USER_RHO),
}
FIGURES: Final = (JCT_MEAN, JCT_P99, SHORT_SLOWDOWN, MAKESPAN, USER_SLOWDOWN, USER_RHO)

PAGE: Final = """# Objectives

Written by `{command}`: run it again rather than change the page.

`--policy dally --set objective=NAME` on generated workloads and cells of the benchmark, mean of the seeds {seeds}.
Restarts take 1 s per GPU; the network of the generated workloads is `slow`. Bold: the figure that the objective is
for. The constants of all objectives were chosen on the seeds 1, 2, 3 of the same workloads.

## Summary

Change against `objective=jct`: geometric mean over all workloads that have the figure, and in how many it is lower.

"""


def label_of(objective: str) -> str:
    """The policy as `--policies` takes it."""
    return "dally" if objective == USUAL else f"dally:objective={objective}"


def table(contest: Contest) -> TextTable:
    """A line per objective."""
    lines = []
    for objective in OBJECTIVES:
        entry = contest.entry(label_of(objective))
        if entry is None:
            continue
        cells = [TextCell(shown(entry.mean(metric), metric), metric in PROMISES[objective]) for metric in FIGURES]
        lines.append([TextCell(objective), *cells])
    return TextTable(["objective", *map(heading, FIGURES)], lines)


def changes(contests: Sequence[Contest], objective: str, metric: Metric) -> list[float]:
    """By workload, the objective's figure ÷ that of the usual one."""
    ratios = []
    for contest in contests:
        usual, other = contest.entry(label_of(USUAL)), contest.entry(label_of(objective))
        before = usual.mean(metric) if usual else None
        after = other.mean(metric) if other else None
        if before and after:
            ratios.append(after / before)
    return ratios


def summary(contests: Sequence[Contest]) -> TextTable:
    """A line per objective: the change of every figure, and in how many workloads it is lower."""
    lines = []
    for objective in OBJECTIVES:
        if objective == USUAL:
            continue
        cells = [TextCell(objective)]
        for metric in FIGURES:
            ratios = changes(contests, objective, metric)
            lower = sum(ratio < 1.0 for ratio in ratios)
            text = f"{geometric_mean(ratios) - 1.0:+.0%} ({lower} of {len(ratios)})" if ratios else "–"
            cells.append(TextCell(text, metric in PROMISES[objective]))
        lines.append(cells)
    return TextTable(["objective", *(metric.short_title() for metric in FIGURES)], lines)


def contests_of(rows: Sequence[Row]) -> list[Contest]:
    """The workloads, all objectives compared."""
    return compare_rows(rows, "")


def page(contests: Sequence[Contest], seeds: Sequence[int]) -> str:
    """The page in Markdown."""
    command = shlex.join(["python", "-m", "benchmarks.objectives", *sys.argv[1:]])
    parts = [PAGE.format(command=command, seeds=", ".join(map(str, seeds))) + summary(contests).markdown()]
    for contest in contests:
        about = f", {ROWS[contest.workload].about}" if contest.workload in ROWS else ""
        parts.append(f"## {contest.workload} on {contest.network}{about}\n\n{table(contest).markdown()}")
    return "\n".join(parts)


def runs_of(given: argparse.Namespace, seeds: Sequence[int], folder: Path) -> list[Run]:
    """Every objective on every workload."""
    base = Scenario(trace="", cluster="", policy="", mix=MIX, restart_per_gpu_s=1.0)
    policies = both_forms([",".join(map(label_of, OBJECTIVES))])
    for name in names(given.rows):
        if name not in ROWS:
            raise unknown("row", name, ROWS)
    loads = {name: {seed: prepared(name, seed, folder) for seed in seeds} for name in names(given.rows)}
    runs = comparison_runs(loads, ["slow"], policies, base)
    for cell in names(given.cells):
        workload, _, network = cell.partition(":")
        runs += comparison_runs(cell_loads([workload], seeds, SHARED, folder), [network], policies, base)
    return runs


def run_all(given: argparse.Namespace, seeds: Sequence[int]) -> Outcome:
    """The runs, made now or kept from before."""
    with tempfile.TemporaryDirectory() as temporary, open_store(given.out) as store:
        folder = (given.out or Path(temporary)) / "traces"
        return Batch(LocalWorkers(given.jobs)).run(runs_of(given, seeds, folder), store)


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(name for name, row in ROWS.items() if not row.aside))
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one per core")
    parser.add_argument("--out", type=Path, help="keep finished runs there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    given = parser.parse_args()
    try:
        seeds = whole_numbers("--seeds", given.seeds)
        outcome = run_all(given, seeds)
    except InputError as error:
        sys.exit(f"objectives: {error}")
    contests = contests_of(outcome.rows)
    for contest in contests:
        print(f"{contest.name()}\n\n{table(contest).aligned()}\n")
    print(summary(contests).aligned())
    if given.markdown:
        write_whole(given.markdown, page(contests, seeds).encode())
    if outcome.failures:
        sys.exit("\n".join(outcome.failures))


if __name__ == "__main__":
    main()
